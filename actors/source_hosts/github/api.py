"""Requests to GitHub's API, as the app and as its installations, by GitHub's clock."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import pydantic_core

from actors.source_hosts.host import HostError
from actors.timed_http import Answer, Deadline, NoAnswer, TimedBackend, exchange, proxy_to
from storage import error_reason, immutable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping

    from joserfc.jwk import RSAKey

    from actors.source_hosts.settings import GithubAppSettings
    from storage import Clock

_PAGE = 100
_MOST_PAGES = 200
_RENEWED_BEFORE = timedelta(minutes=10)
"""A token is renewed this long before its end: longer than the fetch that it is for."""

_LIFETIME = timedelta(minutes=10)
"""The longest lifetime that GitHub takes of the proof of an app."""

_MARGIN = timedelta(minutes=1)
"""Proofs are dated back by this, so that a clock that is a little behind does not see the future."""

_OTHER_CLOCK = timedelta(seconds=30)
"""The least difference between two clocks that explains why GitHub refuses the app."""

_FETCH, _PUSH = "read", "write"
"""The rights to contents that tokens for git have."""

_MOST_BYTES = 16 * 2**20
_MOST_REDIRECTS = 3
_REDIRECTS = {301, 302, 307, 308}
_LIMITED = {403, 429}
_PAUSE = timedelta(minutes=1)
_LONGEST_PAUSE = timedelta(hours=1)
"""GitHub's limits are those of an hour."""


class HostClock:
    """GitHub's time: this host's, which may be wrong, and how far GitHub's is ahead. Safe in any thread.

    GitHub dates tokens and limits by its own clock, and takes no token that this host dates by another.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = timedelta()

    def now(self) -> datetime:
        """Return the time at GitHub."""
        return self._clock.now() + self.ahead

    def heard(self, date: str | None) -> None:
        """Take the ``Date`` of an answer that has just come."""
        try:
            self.ahead = parsedate_to_datetime(date or "") - self._clock.now()
        except (ValueError, TypeError, OverflowError):
            return


class GithubNotFound(HostError):
    """GitHub has no such thing, or does not show it to the app."""

    def __init__(self, message: str) -> None:
        super().__init__(message, final=True)


@immutable
class _Token:
    value: str
    expires_at: datetime


@immutable
class _OneRepository:
    """The repository that a token is for alone, and its right to the contents."""

    id: str
    contents: str


class GithubApi:
    """GitHub's REST API. It blocks, and is safe in any thread. Every method raises HostError.

    An answer has a bound of bytes, and one of time for all of it.

    An installation's token is kept until shortly before it expires. While GitHub asks for a pause, requests of that
    installation fail without being sent. Moments are by GitHub's clock. Nothing that failed is repeated here, because
    all callers try again later.
    """

    def __init__(self, settings: GithubAppSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = HostClock(clock)
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str, _OneRepository | None], _Token] = {}
        self._pauses: dict[str, datetime] = {}

    def as_app(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Return the answer to a request of the app itself."""
        return self._as_app("", method, path, body)

    def request(self, installation_id: str, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Return the answer to a request of an installation; a token that was revoked is replaced once."""
        kept = (installation_id, None) in self._tokens
        try:
            return self._send(self._token(installation_id, None), installation_id, method, path, body)
        except _TokenRevoked:
            self._tokens.pop((installation_id, None), None)
            if not kept:
                raise
            return self._send(self._token(installation_id, None), installation_id, method, path, body)

    def repositories(self, installation_id: str) -> Iterator[Any]:
        """Yield the repositories of an installation, as GitHub describes them."""
        for page in range(1, _MOST_PAGES + 1):
            path = f"/installation/repositories?per_page={_PAGE}&page={page}"
            found = self.request(installation_id, "GET", path)["repositories"]
            yield from found
            if len(found) < _PAGE:
                return

    def fetch_token(self, installation_id: str, repository_id: str) -> str:
        """Return a token that can read the contents of one repository, and nothing else."""
        return self._token(installation_id, _OneRepository(repository_id, _FETCH))

    def push_token(self, installation_id: str, repository_id: str) -> str:
        """Return a token that can read and write the contents of one repository, and nothing else."""
        return self._token(installation_id, _OneRepository(repository_id, _PUSH))

    def drop_git_tokens(self, repository_id: str) -> bool:
        """Keep no token for the contents of a repository; tell whether there was one."""
        with self._lock:
            known = len(self._tokens)
            self._tokens = {
                (account, only): token
                for (account, only), token in self._tokens.items()
                if only is None or only.id != repository_id
            }
            return len(self._tokens) < known

    def _token(self, installation_id: str, only: _OneRepository | None) -> str:
        key = installation_id, only
        with self._lock:  # so that two threads do not both ask for one
            kept = self._tokens.get(key)
            if kept is None or kept.expires_at - _RENEWED_BEFORE <= self._clock.now():
                body = None  # all that the account has granted
                if only is not None:
                    body = {"permissions": {"contents": only.contents}, "repository_ids": [int(only.id)]}
                path = f"/app/installations/{int(installation_id)}/access_tokens"
                made = self._as_app(installation_id, "POST", path, body)
                kept = _Token(made["token"], datetime.fromisoformat(made["expires_at"]))
                now = self._clock.now()
                self._tokens = {each: token for each, token in self._tokens.items() if token.expires_at > now}
                self._tokens[key] = kept
            return kept.value

    def _as_app(self, account: str, method: str, path: str, body: Mapping[str, object] | None) -> Any:  # noqa: ANN401 - JSON
        """Return the answer to a request of the app, asked anew if it failed by a clock that was wrong."""
        ahead = self._clock.ahead
        try:
            return self._send(self._proof(), account, method, path, body)
        except _TokenRevoked:
            if abs(self._clock.ahead - ahead) < _OTHER_CLOCK:
                raise
            return self._send(self._proof(), account, method, path, body)

    def _send(self, token: str, account: str, method: str, path: str, body: Mapping[str, object] | None) -> Any:  # noqa: ANN401 - JSON
        self._wait_for_no_pause(account)
        answer = self._exchange(token, method, path, b"" if body is None else json.dumps(body).encode())
        self._clock.heard(answer.headers.get("date"))
        if answer.status in _LIMITED and (pause := self._pause(answer.headers)) is not None:
            self._pauses[account] = until = self._clock.now() + pause
            message = f"GitHub's rate limit is reached until {until:%H:%M:%S} UTC"
            raise HostError(message, retry_after=pause.total_seconds())
        if not answer.ok:
            raise _refusal(answer.status, answer.content, f"{method} {path.partition('?')[0]}")
        try:
            return pydantic_core.from_json(answer.content)
        except ValueError:
            raise HostError(f"GitHub answered {method} {path} with what is no JSON") from None

    def _exchange(self, token: str, method: str, path: str, body: bytes) -> Answer:
        """Return an answer; of a repository that was renamed, that to which GitHub redirects."""
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
        if body:
            headers["Content-Type"] = "application/json"
        backend = TimedBackend(Deadline(self._settings.timeout))
        url = f"{self._settings.api_url}{path}"
        for _ in range(_MOST_REDIRECTS):
            try:
                answer = exchange(
                    method, url, headers, body,
                    backend=backend, ssl_context=lambda: self._ssl_context, most_bytes=_MOST_BYTES, proxy=proxy_to(url),
                )  # fmt: skip
            except NoAnswer as error:
                raise HostError(f"GitHub {error}") from None
            if answer.status not in _REDIRECTS or "location" not in answer.headers:
                return answer
            target = urljoin(url, answer.headers["location"])
            if urlsplit(target)[:2] != urlsplit(url)[:2]:
                raise HostError("GitHub redirects to another host, where the token must not go")
            url = target
        raise HostError(f"GitHub redirects {method} {path.partition('?')[0]} too often")

    def _pause(self, headers: Mapping[str, str]) -> timedelta | None:
        """Return how long GitHub asks to wait; None if its answer is not about a limit."""
        after, reset = headers.get("retry-after"), headers.get("x-ratelimit-reset", "")
        if after is not None:
            return min(timedelta(seconds=int(after[:9])), _LONGEST_PAUSE) if _is_number(after) else _PAUSE
        if headers.get("x-ratelimit-remaining") != "0":
            return None
        if not _is_number(reset):
            return _PAUSE
        left = datetime.fromtimestamp(int(reset[:10]), UTC) - self._clock.now()  # a moment of GitHub's clock
        return min(max(left, timedelta()), _LONGEST_PAUSE)

    def _wait_for_no_pause(self, account: str) -> None:
        """Raise HostError while GitHub asks for a pause."""
        until = self._pauses.get(account)
        if until is not None:
            left = (until - self._clock.now()).total_seconds()
            if left > 0:
                raise HostError(f"GitHub's rate limit is reached until {until:%H:%M:%S} UTC", retry_after=left)
            self._pauses.pop(account, None)

    def _proof(self) -> str:
        """Return the proof of the app. Raises HostError if its private key cannot be used."""
        from joserfc import jwt  # noqa: PLC0415 - slow to import

        issued = self._clock.now() - _MARGIN
        claims = {
            "iss": self._settings.app_id,
            "iat": int(issued.timestamp()),
            "exp": int((issued + _LIFETIME).timestamp()),
        }
        return jwt.encode({"alg": "RS256"}, claims, self._private_key)

    @cached_property
    def _private_key(self) -> RSAKey:
        from joserfc.errors import JoseError  # noqa: PLC0415 - slow to import
        from joserfc.jwk import RSAKey  # noqa: PLC0415 - slow to import

        try:
            return RSAKey.import_key(self._settings.read_private_key())
        except (OSError, ValueError, TypeError, JoseError) as error:
            raise HostError(f"the private key of the GitHub app cannot be used: {error_reason(error)}") from None

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        """The trusted authorities, which take a tenth of a second to read."""
        import httpx  # noqa: PLC0415 - slow to import

        return httpx.create_ssl_context()


class _TokenRevoked(HostError):
    """GitHub does not take the token."""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _refusal(status: int, content: bytes, what: str) -> HostError:
    message = f"GitHub answered {what} with {status}: {_first_line(content.decode(errors='replace'))}"
    match status:
        case 401:
            return _TokenRevoked(message)
        case 404 | 410:
            return GithubNotFound(message)
        case 422:
            return HostError(message, final=True)
        case _:
            return HostError(message)


def _first_line(text: str) -> str:
    """Return GitHub's own words on an error, or the beginning of another's."""
    with suppress(ValueError, KeyError, TypeError):
        text = pydantic_core.from_json(text)["message"]
    return "".join(each if each.isprintable() else " " for each in str(text)[:200]).strip()
