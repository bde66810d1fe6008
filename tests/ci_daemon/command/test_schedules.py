"""`ci-daemon schedule`: the answers to a person, and the refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_daemon import command
from storage import NewPipeline, SystemClock
from tests.records import new_owner
from tests.state import new_storage

OF = ("ada-example-org", "web")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    storage = new_storage(tmp_path / "state", SystemClock())
    organization = new_owner(storage).organization
    storage.pipelines.create(organization.id, NewPipeline("web", "Web", "r", "trunk"))
    storage.close()
    return tmp_path / "state"


def run(state: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = command.main(["--state-dir", str(state), "schedule", *words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_schedule_is_added_changed_and_removed(state: Path, capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(
        state, capsys, "add", "ada-example-org", "web", "30 4 * * 1-5", "--timezone", "Asia/Tokyo", "--json"
    )
    made = json.loads(out)
    assert (code, made["branch"], made["timezone"], made["enabled"]) == (0, "trunk", "Asia/Tokyo", True)
    assert made["next_at"].endswith("T19:30:00.000000Z")

    assert run(state, capsys, "set", *OF, made["id"], "--disable")[:2] == (0, f"{made['id']}: disabled\n")
    code, out, _ = run(state, capsys, "set", *OF, made["id"], "--enable", "--branch", "main", "--json")
    changed = json.loads(out)
    assert (code, changed["branch"], changed["cron"], changed["next_at"]) == (0, "main", made["cron"], made["next_at"])

    code, out, _ = run(state, capsys, "list", "ada-example-org", "web", "--json")
    assert [each["id"] for each in json.loads(out)] == [made["id"]]
    assert run(state, capsys, "remove", *OF, made["id"])[0] == 0
    assert "has no schedules" in run(state, capsys, "list", "ada-example-org", "web")[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("add", "ada-example-org", "web", "0 0 30 2 *"), "cron: the day of month is wrong"),
        (("add", "ada-example-org", "web", "* * * * *", "--timezone", "Moon"), "timezone: expected the name"),
        (("add", "ada-example-org", "nothing", "* * * * *"), 'there is no pipeline "nothing"'),
        (("set", *OF, "nothing", "--enable"), 'there is no schedule "nothing"'),
        (("remove", *OF, "nothing"), 'there is no schedule "nothing"'),
    ],
)
def test_a_refusal_says_why(state: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str):
    code, out, err = run(state, capsys, *words)
    assert (code, out) == (1, "")
    assert says in err


def test_the_audit_names_the_operation_and_the_door(state: Path, capsys: pytest.CaptureFixture[str]):
    made = json.loads(run(state, capsys, "add", *OF, "30 4 * * *", "--json")[1])
    run(state, capsys, "list", *OF)
    run(state, capsys, "remove", *OF, made["id"])
    assert command.main(["--state-dir", str(state), "audit", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    of_schedules = [each for each in entries if each["action"].endswith("Schedule")]
    assert [(each["action"], each["subject"], each["note"]) for each in reversed(of_schedules)] == [
        ("createSchedule", f"ada-example-org/web/{made['id']}", "box"),
        ("deleteSchedule", f"ada-example-org/web/{made['id']}", "box"),
    ]
    assert len(entries) == 2
