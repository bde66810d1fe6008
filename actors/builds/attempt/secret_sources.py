"""Secrets from elsewhere: values that a service gives to the identity of a job as it starts.

The service there is one that a person named, so that only public addresses are asked, and those that the owner of the
host allows; what it answers is bounded in time and size, and is in no message.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from actors.outgoing import AddressRefused, checked_addresses, usual_context
from actors.timed_http import Deadline, NoAnswer, TimedBackend, exchange
from storage import SecretUnavailable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping
    from ipaddress import IPv4Network, IPv6Network

    from actors.timed_http import Answer

_SECONDS = 20.0
_MOST_ANSWER_BYTES = 1 << 20
_MOST_BYTES = 64 * 1024
_NETWORKS_SETTING = "jobs.secret_networks"


class SecretSources:
    """Fetches secrets. It blocks.

    ``networks`` may be asked although they are not public, also without encryption.
    """

    def __init__(
        self,
        networks: tuple[IPv4Network | IPv6Network, ...],
        ssl_context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._networks = networks
        self._ssl_context = ssl_context or usual_context

    def fetch(self, name: str, source: Mapping[str, str], token: str) -> str:
        """Return the value of a secret for the owner of an identity token. Raises SecretUnavailable."""
        try:
            value = self._of_vault(source, token) if source["kind"] == "vault" else self._of_http(source, token)
        except (NoAnswer, AddressRefused, _Unusable) as error:
            raise SecretUnavailable(
                f"the secret {name} could not be fetched from {source['url']}: {_sentence(error)}"
            ) from None
        if "\0" in value or not 1 <= len(value.encode("utf-8", "replace")) <= _MOST_BYTES:
            raise SecretUnavailable(f"the secret {name} is empty there, has more than {_MOST_BYTES} bytes, or a NUL")
        return value

    def _of_vault(self, source: Mapping[str, str], token: str) -> str:
        base, deadline = f"{source['url'].rstrip('/')}/v1", Deadline(_SECONDS)
        login = json.dumps({"role": source["role"], "jwt": token}).encode()
        signing_in = f"{base}/auth/{quote(source['auth_mount'])}/login"
        answer = self._ask("POST", signing_in, {"Content-Type": "application/json"}, login, deadline)
        own = _member(_parsed(answer, "the sign-in as the role"), "auth", "client_token")
        if not isinstance(own, str) or not own.isascii() or not own.isprintable():
            raise _Unusable("the sign-in gives no token")
        reading = f"{base}/{quote(source['mount'])}/data/{quote(source['path'])}"
        answer = self._ask("GET", reading, {"X-Vault-Token": own}, b"", deadline)
        return _text_of(_member(_parsed(answer, "the read"), "data", "data", source["field"]), source["field"])

    def _of_http(self, source: Mapping[str, str], token: str) -> str:
        answer = self._ask("GET", source["url"], {"Authorization": f"Bearer {token}"}, b"", Deadline(_SECONDS))
        if (field := source.get("field")) is not None:
            return _text_of(_member(_parsed(answer, "the request"), field), field)
        if not answer.ok:
            raise _Unusable(f"the request was answered by {answer.status}")
        try:
            return answer.content.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise _Unusable("the answer is no text in UTF-8") from None

    def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes, deadline: Deadline) -> Answer:
        secure = url.startswith("https:")

        def resolve(host: str, port: int) -> list[str]:
            return checked_addresses(self._networks, host, port, secure=secure, setting=_NETWORKS_SETTING)

        return exchange(
            method,
            url,
            headers,
            body,
            backend=TimedBackend(deadline, resolve),
            ssl_context=self._ssl_context,
            most_bytes=_MOST_ANSWER_BYTES,
        )


class _Unusable(Exception):
    """An answer gives no value; the message says why."""


def _parsed(answer: Answer, what: str) -> Any:  # noqa: ANN401 - any JSON
    if not answer.ok:
        raise _Unusable(f"{what} was answered by {answer.status}")
    try:
        return json.loads(answer.content)
    except (ValueError, RecursionError):
        raise _Unusable(f"{what} was answered by something else than JSON") from None


def _member(document: Any, *names: str) -> Any:  # noqa: ANN401 - any JSON
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _text_of(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise _Unusable(f"the answer has no text {field}")
    return value


def _sentence(error: Exception) -> str:
    return f"it {error}" if isinstance(error, NoAnswer) else str(error)
