"""Makes the GitHub app of this service, from a manifest (docs/github.md)."""

from __future__ import annotations

import html
import json
import re
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx
from pydantic import ValidationError

from actors import Deadline, NoAnswer, TimedBackend, exchange, proxy_to
from ci_daemon.host.private_file import write_private
from storage import JsonModel, error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PERMISSIONS = {
    "checks": "write",
    "contents": "read",
    "emails": "read",
    "members": "read",
    "metadata": "read",
    "pull_requests": "read",
}
_EVENTS = ("push", "pull_request", "check_run", "check_suite", "repository")
_TIMEOUT = 30
_MOST_BYTES = 2**20


class AppNotMade(Exception):
    """GitHub made no app, or it cannot be written down; the message says what to do."""


class MadeApp(JsonModel):
    """An app as GitHub tells of it, once."""

    id: int
    slug: str
    html_url: str
    client_id: str
    client_secret: str
    webhook_secret: str
    pem: str


@immutable
class Setup:
    """A dialogue with a browser on this host, which carries the manifest to GitHub and a code back."""

    service_url: str
    web_url: str
    owner: str | None = None

    def manifest(self, redirect_url: str) -> dict[str, object]:
        """Return the description of the app."""
        return {
            "name": f"ci-daemon {urlsplit(self.service_url).hostname}"[:34],
            "url": self.service_url,
            "hook_attributes": {"url": f"{self.service_url}/webhooks/github", "active": True},
            "redirect_url": redirect_url,
            "callback_urls": [f"{self.service_url}/login/with/github/callback"],
            "public": False,
            "default_permissions": _PERMISSIONS,
            "default_events": list(_EVENTS),
        }

    def listen(self, port: int) -> CodeServer:
        """Open the server of the dialogue, on the loopback interface alone. Raises AppNotMade."""
        try:
            return CodeServer(self, port)
        except OSError as error:
            raise AppNotMade(f"cannot listen on port {port}: {error.strerror}: choose another --port") from None


class CodeServer(HTTPServer):
    """Serves the form at ``/``, and takes GitHub's code at ``/made``, where the state must be right."""

    def __init__(self, setup: Setup, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Page)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        self.state = secrets.token_urlsafe(24)
        self.code: str | None = None
        where = f"organizations/{setup.owner}/" if setup.owner else ""
        manifest = html.escape(json.dumps(setup.manifest(f"{self.url}made")))
        target = html.escape(f"{setup.web_url}/{where}settings/apps/new?state={self.state}")
        self.form = (
            f'<!doctype html><title>ci-daemon</title><form action="{target}" method="post">'
            f'<input type="hidden" name="manifest" value="{manifest}"><button>Make the app at GitHub</button></form>'
        )

    def wait(self) -> str:
        """Serve until GitHub has led the browser back; return its code."""
        while self.code is None:
            self.handle_request()
        return self.code


class _Page(BaseHTTPRequestHandler):
    server: CodeServer
    timeout = 10

    def do_GET(self) -> None:
        """Show the form, or take the code."""
        parts = urlsplit(self.path)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/":
            self._answer(HTTPStatus.OK, self.server.form)
        elif parts.path == "/made" and secrets.compare_digest(
            given.get("state", "").encode(), self.server.state.encode()
        ):
            self.server.code = given.get("code")
            self._answer(HTTPStatus.OK, "<!doctype html><title>ci-daemon</title>Made. Go back to the terminal.")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "<!doctype html><title>ci-daemon</title>Not found.")

    def _answer(self, status: HTTPStatus, page: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_: object) -> None:
        """Keep the code out of the terminal."""


def convert(api_url: str, code: str) -> MadeApp:
    """Return the app that a code of GitHub stands for; it works once, within an hour. Raises AppNotMade."""
    if not code.isascii() or not code.isalnum():
        raise AppNotMade("the code must be the letters and digits after code= in the address that GitHub led to")
    url = f"{api_url}/app-manifests/{code}/conversions"
    backend = TimedBackend(Deadline(_TIMEOUT))
    try:
        answer = exchange(
            "POST", url, {}, b"",
            backend=backend, ssl_context=httpx.create_ssl_context, most_bytes=_MOST_BYTES, proxy=proxy_to(url),
        )  # fmt: skip
        if not answer.ok:
            raise AppNotMade(f"GitHub refused the code with {answer.status}: it works once, within an hour; start over")
        return MadeApp.model_validate_json(answer.content)
    except NoAnswer as error:
        raise AppNotMade(f"GitHub {error}; start over") from None
    except ValidationError:
        raise AppNotMade("GitHub answers something that describes no app; start over") from None


def write_app(app: MadeApp, file: Path, *, signs_in: bool) -> Path:
    """Add the app to a configuration file, and write its private key beside it; return the key's file.

    With ``signs_in`` people also sign in by the app. Both files are of the configuration's owner, and the key's and a
    new configuration's are not readable by others. Raises AppNotMade.
    """
    key = file.with_name("github-app.pem")
    text = file.read_text() if file.exists() else ""
    own = {"app_id": str(app.id), "private_key": key.name, "webhook_secret": app.webhook_secret}
    text = _with_keys(text, "github", own)
    if signs_in:
        text = _with_keys(text, "identity.github", {"client_id": app.client_id, "client_secret": app.client_secret})
    try:
        write_private(key, app.pem)
        write_private(file, text)
    except OSError as error:
        raise AppNotMade(
            f"the app {app.html_url} is made, but {error_reason(error)}: delete it at GitHub, and start over"
        ) from None
    return key


def _with_keys(text: str, section: str, keys: Mapping[str, str]) -> str:
    """Return a configuration with more keys in a section, which may be there already."""
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
    head = re.search(rf"^\[{re.escape(section)}\][ \t]*(?:#.*)?$", text, re.MULTILINE)
    if head is not None:
        return f"{text[: head.end()]}\n{lines.rstrip()}{text[head.end() :]}"
    above = f"{text.rstrip()}\n\n" if text.strip() else ""
    return f"{above}[{section}]\n{lines}"
