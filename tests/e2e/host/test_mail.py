"""E-mail of the real daemon: the server is away, the daemon is restarted, the server is back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.e2e.daemon import Client, Daemon
from tests.mail_server import mail_server
from tests.ports import reserved_port
from tests.waiting import until


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


@pytest.fixture(scope="module")
def settings(port: int) -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": "0",
        "CI_DAEMON_MAIL_HOST": "127.0.0.1",
        "CI_DAEMON_MAIL_PORT": str(port),
        "CI_DAEMON_MAIL_SECURITY": "none",
    }


def test_mail_outlives_an_absent_server_and_a_restart(daemon: Daemon, port: int):
    client = Client.create(daemon, "ada@example.org")
    invited = client.request("POST", "invites", json={"email": "bob@example.org", "role": "member"})
    assert invited.status_code == 201, invited.text
    token = invited.json()["token"]

    def failed() -> bool:
        (mail,) = daemon.json("mail", "queue")
        assert mail["state"] == "waiting"
        return bool(mail["attempts"])

    until(failed, "a failed attempt")
    (mail,) = daemon.json("mail", "queue")
    assert "cannot connect to 127.0.0.1" in mail["last_error"]
    assert daemon.json("status")["mail"] == {"configured": True, "waiting": 1, "deferred": 1, "given_up": 0}
    metrics = client.request("GET", "/metrics").text
    assert "ci_daemon_waiting_mails 1.0" in metrics
    assert re.search(r'ci_daemon_mails_total{result="deferred"} [1-9]', metrics)

    assert daemon.stop() == 0
    daemon.start()
    assert daemon.json("mail", "retry") == {"retried": 1}  # now, while nothing takes it
    with mail_server(port) as server:
        daemon.command("mail", "retry")
        message = server.messages.get(timeout=60)
        until(lambda: daemon.json("mail", "queue") == [], "the note that it was sent")
        assert daemon.stop() == 0
        daemon.start()
        until(lambda: daemon.json("status")["answers"], "the daemon's answer")
        assert server.recipients == ["bob@example.org"]
    assert message["Subject"] == f"Invite to {client.org}"
    assert token in message.get_body(("plain",)).get_content()
    assert token not in daemon.log + str(daemon.json("audit")) + str(mail)
