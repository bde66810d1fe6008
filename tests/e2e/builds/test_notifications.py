"""A failing commit and its recovery, told by mail and webhook; a crash in the middle of a delivery."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from tests.e2e.daemon import Build, Client, Daemon
from tests.git_repository import GitRepository
from tests.identity.local_server import Asked, LocalServer, Reply, local_server
from tests.mail_server import MailServer, mail_server
from tests.waiting import until

PIPELINE = """
import harmont as hm

@hm.pipeline("ci", triggers=[hm.push(branch="main")])
def ci():
    return hm.sh("sh check", label="check")
"""
SLUG = "acme-web-ci"


@pytest.fixture(scope="module")
def mailbox() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture(scope="module")
def endpoint() -> Iterator[LocalServer]:
    with local_server() as server:
        server.answers["/hook"] = lambda _: Reply(b"ok")
        yield server


@pytest.fixture(scope="module")
def settings(settings: dict[str, str], mailbox: MailServer) -> dict[str, str]:
    return settings | {
        "CI_DAEMON_MAIL_HOST": "127.0.0.1",
        "CI_DAEMON_MAIL_PORT": str(mailbox.port),
        "CI_DAEMON_MAIL_SECURITY": "none",
        "CI_DAEMON_MAIL_SENDER": "ci@example.org",
        "CI_DAEMON_NOTIFICATIONS_NETWORKS": '["127.0.0.0/8"]',
    }


def built(client: Client, number: int) -> Any:
    build = Build(client, f"pipelines/{SLUG}/builds/{number}")
    until(lambda: client.request("GET", build.path).status_code == 200, f"build {number}", 90)
    return build.finish(90)


def text_of(mail: EmailMessage) -> str:
    part = mail.get_body(("plain",))
    assert part is not None
    content: str = part.get_content()
    return content


def test_a_failure_and_its_recovery_are_told(
    daemon: Daemon, mailbox: MailServer, endpoint: LocalServer, tmp_path: Path
):
    ann = Client.create(daemon, "ann@example.org")  # the author of the repository's commits
    repository = GitRepository(tmp_path)
    repository.commit("Begin", **{".hm__pipeline.py": PIPELINE, "check": "true\n"})
    repository.push("main")
    daemon.command("repo", "connect", str(repository.bare), "--org", ann.org, "--poll", "1")
    until(lambda: daemon.json("repo", "list")[0]["checked_at"], "the first look")
    repository.commit("Pass")
    repository.push("main")
    assert built(ann, 1)["state"] == "passed"

    daemon.command("notify", "add", ann.org, SLUG, "email")
    url = f"{endpoint.url}/hook"
    added = daemon.json(
        "notify", "add", ann.org, SLUG, "webhook", url, "--event", "build.first_failure", "--event", "build.recovered"
    )
    repository.commit("Break it <now>", check="echo 'the <reason> & more'; exit 3\n")
    repository.push("main")
    failed = built(ann, 2)
    told = [mailbox.messages.get(timeout=30)]
    until(lambda: len(endpoint.seen) == 1, "the webhook")

    entered, leave = threading.Event(), threading.Event()

    def hang(_: Asked) -> Reply:
        entered.set()
        leave.wait(60)
        return Reply(b"too late")

    endpoint.answers["/hook"] = hang
    repository.commit("Mend it", check="true\n")
    repository.push("main")
    assert built(ann, 3)["state"] == "passed"
    assert entered.wait(30)
    daemon.kill()  # in the middle of the delivery
    leave.set()
    endpoint.answers["/hook"] = lambda _: Reply(b"ok")
    daemon.start()
    until(lambda: len(endpoint.seen) == 3, "the webhook of the recovery, again")
    told.append(mailbox.messages.get(timeout=30))

    assert [mail["To"] for mail in told] == ["ann@example.org"] * 2
    assert [str(mail["Subject"]) for mail in told] == [
        f"{ann.org}/{SLUG} has failed on main: build 2",
        f"{ann.org}/{SLUG} passes again on main: build 3",
    ]
    for mail in told:
        assert str(mail["List-Unsubscribe"]).startswith("<http://127.0.0.1:")
    page = f"/{ann.org}/pipelines/{SLUG}/builds/2"
    for part in ("Break it <now>", "Step check: exit code 3", "    the <reason> & more", page):
        assert part in text_of(told[0])

    events = [Webhook(added["secret"]).verify(each.body, dict(each.headers)) for each in endpoint.seen]
    assert [each["type"] for each in events] == ["build.first_failure", "build.recovered", "build.recovered"]
    assert endpoint.seen[1].headers["webhook-id"] == endpoint.seen[2].headers["webhook-id"]
    assert endpoint.seen[1].body == endpoint.seen[2].body
    assert events[0]["data"]["build"] == failed
    states = [(each["state"], each["http_status"]) for each in daemon.json("notify", "deliveries", added["id"])]
    assert states == [("delivered", 200)] * 2
    assert mailbox.messages.empty()
