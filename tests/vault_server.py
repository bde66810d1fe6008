"""A server that speaks the protocol of Vault, and takes identity tokens as bearers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jwt import JWTClaimsRegistry


@dataclass
class VaultServer:
    """The roles with what they bind, secrets by path, and what was asked for.

    ``keys`` are those of the issuer now.
    """

    keys: Callable[[], list[Any]]
    url: str = ""
    roles: dict[str, Mapping[str, str]] = field(default_factory=dict)
    secrets: dict[str, Mapping[str, object]] = field(default_factory=dict)
    raw: bytes | None = None
    """An answer in place of all others."""

    tokens: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def login(self, role: str, token: str) -> dict[str, object] | None:
        """Sign in as Vault's JWT method does: signature, times, audience, and the claims that the role binds."""
        claims = self.claims(token, self.url)
        bound = self.roles.get(role)
        if claims is None or bound is None or any(claims.get(name) != value for name, value in bound.items()):
            return None
        own = f"hvs.{len(self.tokens)}"
        self.tokens.add(own)
        return {"auth": {"client_token": own}}

    def claims(self, token: str, audience: str) -> Mapping[str, Any] | None:
        """Return the claims of a token for an audience; None if it is none."""
        try:
            found = jwt.decode(token, KeySet.import_key_set({"keys": self.keys()}), algorithms=["RS256"])
            JWTClaimsRegistry(aud={"essential": True, "value": audience}, exp={"essential": True}).validate(
                found.claims
            )
        except (JoseError, ValueError):
            return None
        return found.claims


@contextmanager
def vault_server(keys: Callable[[], list[Any]]) -> Iterator[VaultServer]:
    """Serve on a port of the loopback."""
    vault = VaultServer(keys)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            vault.asked.append(self.path)
            self.answer(vault.login(body["role"], body["jwt"]) if self.path == "/v1/auth/jwt/login" else None)

        def do_GET(self) -> None:
            vault.asked.append(self.path)
            if self.path == "/plain":
                bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
                self.answer({"token": "of-http\n"} if vault.claims(bearer, vault.url) else None)
                return
            known = self.headers.get("X-Vault-Token") in vault.tokens
            found = vault.secrets.get(self.path.removeprefix("/v1/"))
            self.answer({"data": {"data": found}} if known and found is not None else None)

        def answer(self, document: object) -> None:
            content = json.dumps({"errors": ["hush"]} if document is None else document).encode()
            content = content if vault.raw is None else vault.raw
            self.send_response(403 if document is None and vault.raw is None else 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        vault.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield vault
        finally:
            server.shutdown()
            thread.join()
