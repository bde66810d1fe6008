"""Signing in: the handoff with the real console, codes, contexts, and signing out."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ci_daemon.command import main
from tests.ci_daemon.remote.conftest import RunJson
from tests.ci_daemon.scripted_service import ScriptedService
from tests.processes import ended

FORM_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')


class Browser:
    """A browser in which the service's user is signed in."""

    def __init__(self, service: ScriptedService) -> None:
        self._http = httpx.Client(base_url=service.url, follow_redirects=True, headers={"Origin": service.url})
        user = service.storage.tokens.caller(service.token)
        assert user is not None
        _, self._session = service.storage.tokens.create_session(user.user.id, "a browser")
        signed_in = self._http.post("/login/session", headers={"Authorization": f"Bearer {self._session}"})
        assert signed_in.is_success, signed_in.text
        # The cookie is marked as secure, which a real browser ignores on the loopback.
        self._http.headers["Cookie"] = signed_in.headers["Set-Cookie"].partition(";")[0]

    def press_the_button(self, url: str) -> str:
        """Open a page, send its first form, and return the page that follows."""
        page = self._http.get(url).text
        action = re.search(r'<form method="post" action="([^"]*cli-login/[^"]+)"', page)
        assert action is not None, page
        fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]+)"', page))
        answered = self._http.post("/" + action[1].removeprefix("./").lstrip("/"), data=fields)
        assert answered.is_success, answered.text
        return answered.text


@contextmanager
def login(service: ScriptedService, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with ended(
        subprocess.Popen(
            [sys.executable, "-m", "ci_daemon", "login", service.url, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    ) as waiting:
        yield waiting


def page_of(waiting: subprocess.Popen[str]) -> str:
    """Return the address that a command prints for the person."""
    assert waiting.stderr is not None
    return waiting.stderr.readline().split()[-1]


def test_a_person_signs_in_with_a_browser_and_out_again(
    service: ScriptedService, home: Path, capsys: pytest.CaptureFixture[str]
):
    with login(service) as waiting:
        url = page_of(waiting)
        assert url.startswith(service.url.replace("127.0.0.1", "localhost"))  # where browsers use passkeys
        assert "close this page" in Browser(service).press_the_button(url)
        out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert "signed in to" in out
    tokens = home / "tokens.json"
    assert [file.stat().st_mode & 0o777 for file in (home, tokens, home / "contexts.json")] == [0o700, 0o600, 0o600]
    assert "token" not in (home / "contexts.json").read_text().replace("token_place", "")
    assert main(["whoami"]) == 0
    assert service.org in capsys.readouterr().out
    assert main(["logout"]) == 0
    assert tokens.read_text().strip() == "{}"
    assert main(["whoami"]) == 1
    assert "sign in with `ci-daemon login URL`" in capsys.readouterr().err


def test_a_code_is_typed_and_shown_nowhere(service: ScriptedService, capsys: pytest.CaptureFixture[str]):
    with login(service, "--paste", "--name", "work") as waiting:
        code = re.search(r"[0-9A-Z]{4}(-[0-9A-Z]{4}){3}", Browser(service).press_the_button(page_of(waiting)))
        assert code is not None
        out, err = waiting.communicate(f"{code[0].lower()}\n", timeout=60)
    assert waiting.returncode == 0, err
    assert code[0] not in out + err
    assert main(["context", "show", "work"]) == 0
    assert service.url in capsys.readouterr().out
    with login(service, "--paste") as again:
        page_of(again)
        _, err = again.communicate(f"{code[0]}\n", timeout=60)
    assert again.returncode == 1
    assert "the code is wrong, used, or older than five minutes" in err


def test_api_keys_cannot_be_signed_out(service: ScriptedService, run_json: RunJson, capsys: pytest.CaptureFixture[str]):
    assert run_json("whoami")["personal_org"] == service.org
    assert main(["logout"]) == 1
    assert "CI_DAEMON_TOKEN stands above the contexts" in capsys.readouterr().err
