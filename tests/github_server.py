"""A local GitHub, which checks each request against GitHub's own description of its API."""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import RSAKey
from jsonschema import Draft202012Validator, FormatChecker

from actors.source_hosts import GithubAppSettings

OCTOKIT = Path(__file__).parent.parent / ".run" / "test-programs" / "octokit" / "node_modules" / "@octokit"
WEBHOOK_SECRET = "the secret of the tests"
APP_ID = "4711"

_PARAMETER = re.compile(r"\{(\w+)\}")


@cache
def description() -> dict[str, Any]:
    """Return GitHub's description, in OpenAPI."""
    described: dict[str, Any] = json.loads((OCTOKIT / "openapi" / "generated" / "api.github.com.json").read_text())
    return described


@cache
def _paths() -> list[tuple[str, re.Pattern[str]]]:
    paths = sorted(description()["paths"], key=lambda path: len(_PARAMETER.findall(path)))
    return [(each, re.compile(_PARAMETER.sub("[^/]+", re.sub(r"[.]", r"\\.", each)))) for each in paths]


@cache
def private_key() -> str:
    """Return the private key of the app, in PEM."""
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


@cache
def _key() -> RSAKey:
    return RSAKey.import_key(private_key())  # which checks that it is prime: a tenth of a second


@dataclass
class Fault:
    """An answer in place of the right one; a ``status`` of 0 is no answer in time.

    With ``slow`` the body comes byte by byte, each after a tenth of a second.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "a fault of the test"
    slow: bool = False


@dataclass
class Installation:
    """An installation of the app, with its repositories as GitHub describes them.

    ``contents`` is its right to what the repositories contain.
    """

    id: int
    account: dict[str, Any]
    repositories: list[dict[str, Any]] = field(default_factory=list)
    suspended: bool = False
    contents: str = "write"

    def add(self, repository_id: int, full_name: str, clone_url: str, *, private: bool = False) -> dict[str, Any]:
        """Give the installation a repository."""
        made = {
            "id": repository_id,
            "full_name": full_name,
            "name": full_name.rpartition("/")[2],
            "clone_url": clone_url,
            "default_branch": "main",
            "private": private,
        }
        self.repositories.append(made)
        return made


@dataclass
class GithubServer:
    """GitHub; ``faults`` are used up one by one before it answers rightly.

    ``asked`` are the operations of the requests, ``wrong`` what they violate of the description. Its clock is ``ahead``
    of this host's.
    """

    url: str = ""
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    installations: dict[int, Installation] = field(default_factory=dict)
    users: dict[int, str] = field(default_factory=dict)
    roles: dict[tuple[str, str], str] = field(default_factory=dict)
    permissions: dict[str, str] = field(default_factory=dict)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    check_runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    annotations: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    states: list[tuple[int, str]] = field(default_factory=list)
    tokens: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    manifests: set[str] = field(default_factory=set)
    lifetime: timedelta = timedelta(hours=1)
    ahead: timedelta = timedelta()
    over: threading.Event = field(default_factory=threading.Event)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1000))

    @classmethod
    @contextmanager
    def serving(cls) -> Iterator[GithubServer]:
        """Serve at a port of its own."""
        github = cls()
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(github))
        github.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield github
        finally:
            github.over.set()
            server.shutdown()
            server.server_close()
            thread.join()
        assert github.wrong == []

    @property
    def now(self) -> datetime:
        """The time at GitHub."""
        return datetime.now(UTC) + self.ahead

    def settings(self, private_key_file: Path) -> GithubAppSettings:
        """Return the configuration of the app; its private key is written to a file."""
        private_key_file.write_text(private_key())
        return GithubAppSettings(APP_ID, private_key_file, WEBHOOK_SECRET, self.url, self.url)

    def install(self, number: int, login: str, account_id: int, kind: str = "Organization") -> Installation:
        """Install the app on an account."""
        made = self.installations[number] = Installation(number, {"id": account_id, "login": login, "type": kind})
        return made

    def may_push(self, token: str) -> bool:
        """Tell whether git may push with a token, which is for pushes alone."""
        rights = self.tokens[token][1] if token in self.tokens else {}
        return bool(rights.get("permissions") == {"contents": "write"})

    def answer(self, method: str, path: str, body: Any, authorization: str) -> tuple[int, Any]:
        """Return the status and body of the answer to a request that is as described."""
        token = authorization.partition(" ")[2]
        match method, path.strip("/").split("/"):
            case "POST", ["app-manifests", code, "conversions"]:
                return self._convert(code)
            case _, ["app", *rest]:
                return self._as_app(method, rest, body, token)
        if token not in self.tokens or self.tokens[token][0] not in self.installations:
            return 401, {"message": "Bad credentials"}
        installation, rights = self.installations[self.tokens[token][0]], self.tokens[token][1]
        match method, path.strip("/").split("/"):
            case "GET", ["installation", "repositories"]:
                return 200, installation.repositories
            case "GET", ["user", number] if int(number) in self.users:
                return 200, {"login": self.users[int(number)], "id": int(number)}
            case "GET", ["orgs", organization, "memberships", login] if (organization, login) in self.roles:
                person = next(key for key, value in self.users.items() if value == login)
                role = self.roles[organization, login]
                return 200, {"role": role, "state": "active", "user": {"id": person, "login": login}}
            case _, ["repos", *of_repository]:
                return self._of_repository(method, of_repository, body, rights)
        return 404, {"message": "Not Found"}

    def _of_repository(self, method: str, path: list[str], body: Any, rights: dict[str, Any]) -> tuple[int, Any]:
        match method, path:
            case "GET", [_, _, "collaborators", login, "permission"] if login in self.permissions:
                return 200, {"permission": self.permissions[login]}
            case "GET", [_, _, "pulls"]:
                return 200, self.pulls
            case "GET", [_, _, "pulls", number]:
                found = [each for each in self.pulls if each["number"] == int(number)]
                return (200, found[0]) if found else (404, {"message": "Not Found"})
            case "POST", [owner, name, "check-runs"] if "permissions" not in rights:
                made = next(self._numbers)
                return 201, self._check_run(made, {**body, "repository": f"{owner}/{name}"})
            case _, [_, _, "check-runs", number] if int(number) in self.check_runs:
                known = self.check_runs[int(number)]
                return 200, known if method == "GET" else self._check_run(int(number), {**known, **body})
        return 404, {"message": "Not Found"}

    def _as_app(self, method: str, rest: list[str], body: Any, token: str) -> tuple[int, Any]:
        claims = jwt.decode(token, _key(), algorithms=["RS256"]).claims
        assert claims["iss"] == APP_ID
        assert claims["exp"] - claims["iat"] <= 600
        now = self.now.timestamp()
        if not claims["iat"] <= now < claims["exp"] <= now + 600:
            return 401, {"message": "'Expiration time' claim ('exp') must be a numeric value in the future"}
        installation = self.installations.get(int(rest[1]))
        if installation is None:
            return 404, {"message": "Not Found"}
        if method == "GET":
            suspended = "2026-01-01T00:00:00Z" if installation.suspended else None
            return 200, {"id": installation.id, "account": installation.account, "suspended_at": suspended}
        if installation.suspended:
            return 403, {"message": "This installation has been suspended"}
        asked = (body or {}).get("permissions", {})
        if (asked.get("contents"), installation.contents) == ("write", "read"):
            return 422, {"message": "The permissions requested are not granted to this installation."}
        made = f"ghs_{secrets.token_hex(18)}"
        self.tokens[made] = installation.id, body or {}
        return 201, {"token": made, "expires_at": f"{self.now + self.lifetime:%Y-%m-%dT%H:%M:%SZ}"}

    def _check_run(self, number: int, run: dict[str, Any]) -> dict[str, Any]:
        annotated = self.annotations.setdefault(number, [])
        annotated += run["output"].pop("annotations", [])
        assert len(annotated) <= 50
        output = {**run["output"], "annotations_count": len(annotated)}
        shown = self.check_runs[number] = {**run, "id": number, "output": output}
        self.states.append((number, run.get("conclusion") or run["status"]))
        return shown

    def _convert(self, code: str) -> tuple[int, Any]:
        if code not in self.manifests:
            return 404, {"message": "Not Found"}
        self.manifests.remove(code)
        made = {"id": int(APP_ID), "slug": "ci-of-the-tests", "pem": private_key(), "webhook_secret": WEBHOOK_SECRET}
        own = {"client_id": "Iv1.0123456789abcdef", "client_secret": "a" * 40, "owner": {"login": "acme"}}
        return 201, made | own | {"html_url": f"{self.url}/apps/ci-of-the-tests"}


def violations(method: str, target: str, body: Any) -> Iterator[str]:
    """Yield how a request differs from GitHub's description."""
    parts = urlsplit(target)
    found = next((path for path, pattern in _paths() if pattern.fullmatch(parts.path)), None)
    operation = None if found is None else description()["paths"][found].get(method.lower())
    if operation is None:
        yield f"GitHub has no {method} {parts.path}"
        return
    parameters = [_resolved(each) for each in operation.get("parameters", ())]
    known = {each["name"] for each in parameters if each["in"] == "query"}
    yield from (f"{method} {found} has no parameter {name}" for name, _ in parse_qsl(parts.query) if name not in known)
    content = operation.get("requestBody", {}).get("content", {})
    if body is not None and "application/json" not in content:
        yield f"{method} {found} takes no body"
    elif "application/json" in content and (body is not None or operation["requestBody"].get("required")):
        schema = {**content["application/json"]["schema"], "components": description()["components"]}
        checker = Draft202012Validator(schema, format_checker=FormatChecker())
        yield from (f"{method} {found}: {each.message[:300]}" for each in checker.iter_errors(body))
        unknown = set(body) - set(schema.get("properties", body))
        yield from (f"{method} {found} has no field {name}" for name in unknown)


def _resolved(parameter: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in parameter:
        return parameter
    named: dict[str, Any] = description()["components"]["parameters"][parameter["$ref"].rpartition("/")[2]]
    return named


def _handler(github: GithubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(text) if text and text != b"null" else None
            path = self.path
            github.asked.append(f"{self.command} {path.partition('?')[0]}")
            github.wrong.extend(violations(self.command, path, body))
            if github.faults:
                self._fault(github.faults.pop(0))
                return
            try:
                status, found = github.answer(
                    self.command, path.partition("?")[0], body, self.headers.get("Authorization", "")
                )
            except Exception as error:
                github.wrong.append(f"{self.command} {path}: {error!r}")
                raise
            if status == 200 and "per_page=" in path:
                found = _page(found, dict(parse_qsl(urlsplit(path).query)))
            self._answer(status, found, {})

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names are the library's

        def _fault(self, fault: Fault) -> None:
            if fault.status == 0:
                github.over.wait(10)
                return
            self._answer(fault.status, {"message": fault.message}, fault.headers, slow=fault.slow)

        def _answer(self, status: int, body: Any, headers: Mapping[str, str], *, slow: bool = False) -> None:
            text = json.dumps(body).encode()
            self.send_response_only(status)
            self.send_header("Date", self.date_time_string(github.now.timestamp()))
            for name, value in {**headers, "Content-Length": str(len(text)), "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()
            _write(self.wfile, text, github.over if slow else None)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    return Handler


def _write(stream: BufferedIOBase, text: bytes, slow_until: threading.Event | None) -> None:
    """Write a body, slowly if there is an event that ends it; the service may have gone."""
    with suppress(ConnectionError):
        if slow_until is None:
            stream.write(text)
            return
        for byte in text:
            stream.write(bytes([byte]))
            if slow_until.wait(0.1):
                return


def _page(found: list[Any], query: dict[str, str]) -> Any:
    """Return a page of pull requests or repositories."""
    size, page = int(query["per_page"]), int(query.get("page", 1))
    assert size <= 100
    shown = found[(page - 1) * size : page * size]
    return shown if "state" in query else {"total_count": len(found), "repositories": shown}


def reset_at(moment: datetime) -> dict[str, str]:
    """Return the headers of an exhausted rate limit."""
    return {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(moment.timestamp()))}
