"""`ci-daemon notify`: the answers to a person, and the refusals."""

from __future__ import annotations

import io
import json
from contextlib import closing
from pathlib import Path

import pytest

from ci_daemon import command
from storage import EndpointAnswer, NewPipeline, Storage, SystemClock
from tests.records import new_owner
from tests.state import new_storage

HOOK = "https://hooks.example.org/T0/very-secret"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    storage = new_storage(tmp_path / "state", SystemClock())
    organization = new_owner(storage).organization
    storage.pipelines.create(organization.id, NewPipeline("web", "Web", "r", "trunk"))
    storage.close()
    return tmp_path / "state"


def run(state: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = command.main(["--state-dir", str(state), *words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def notify(state: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return run(state, capsys, "notify", *words)


def test_the_secret_is_shown_once_and_the_url_never(state: Path, capsys: pytest.CaptureFixture[str]):
    code, out, _ = notify(state, capsys, "add", "ada-example-org", "web", "webhook", HOOK)
    assert code == 0
    assert "secret: whsec_" in out
    code, out, _ = notify(state, capsys, "list", "ada-example-org", "web", "--json")
    (listed,) = json.loads(out)
    assert (listed["origin"], listed["events"]) == ("https://hooks.example.org", ["build.finished"])
    assert "very-secret" not in out
    assert "whsec_" not in out
    assert notify(state, capsys, "rotate", listed["id"])[1].startswith("secret: whsec_")


def test_a_url_is_read_from_stdin(state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{HOOK}\n"))
    code, out, _ = notify(
        state, capsys, "add", "ada-example-org", "web", "slack", "-", "--event", "build.recovered", "--json"
    )
    made = json.loads(out)
    assert (code, made["origin"], made["events"], made["secret"]) == (
        0,
        "https://hooks.example.org",
        ["build.recovered"],
        None,
    )


def test_the_status_names_those_that_fail(state: Path, capsys: pytest.CaptureFixture[str]):
    notification = json.loads(notify(state, capsys, "add", "ada-example-org", "web", "webhook", HOOK, "--json")[1])
    delivery = json.loads(notify(state, capsys, "test", notification["id"], "--json")[1])
    with closing(Storage.open(state, SystemClock())) as storage:
        found = storage.notification_deliveries.by_uuid(delivery["id"])
        assert found is not None
        storage.notification_deliveries.note(found, EndpointAnswer(410, "", 1, "the endpoint answers 410"))
    out = run(state, capsys, "status")[1]
    assert f"ada-example-org/web {notification['id']}: disabled, failing since" in " ".join(out.split())
    assert "the endpoint answers 410" in " ".join(out.split())
    assert notify(state, capsys, "set", notification["id"], "--enable")[1] == f"{notification['id']}: build.finished\n"
    assert "the endpoint answers 410" not in run(state, capsys, "status")[1]


def test_a_test_of_e_mail_says_why_there_is_none(state: Path, capsys: pytest.CaptureFixture[str]):
    email = json.loads(notify(state, capsys, "add", "ada-example-org", "web", "email", "--json")[1])
    assert "give the address" in notify(state, capsys, "test", email["id"])[2]
    code, out, _ = notify(state, capsys, "test", email["id"], "--to", "ada@example.org", "--json")
    tested = json.loads(out)
    assert (code, tested["state"], tested["last_error"]) == (1, "skipped", "the service has no mail server")
    assert "a mail is not sent again" in notify(state, capsys, "redeliver", tested["id"])[2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("add", "ada-example-org", "web", "webhook"), "url: expected the URL"),
        (("add", "ada-example-org", "web", "webhook", "ftp://x"), "url: expected a URL such as"),
        (("add", "ada-example-org", "web", "email", HOOK), "url: expected none for e-mail"),
        (("add", "ada-example-org", "web", "slack", HOOK, "--to-creator"), "to_creator: expected only for e-mail"),
        (("add", "ada-example-org", "nothing", "email"), 'there is no pipeline "nothing"'),
        (("set", "nothing", "--disable"), 'there is no notification "nothing"'),
        (("redeliver", "nothing"), 'there is no notification_delivery "nothing"'),
    ],
)
def test_a_refusal_says_why(state: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str):
    code, out, err = notify(state, capsys, *words)
    assert (code, out) == (1, "")
    assert says in err
