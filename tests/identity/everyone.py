"""All kinds of identity providers at once, for one person whom each of them knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from api import IdentitySettings
from tests.clock import ManualClock
from tests.identity.github import Github, address
from tests.identity.google import Google
from tests.identity.issuer import BODY, ScriptedIssuer
from tests.identity.local_server import local_server


@contextmanager
def providers_of(email: str) -> Iterator[IdentitySettings]:
    """Run providers that take the code of `BODY` for this person, at the time of a new `ManualClock`."""
    code, page = BODY["code"], BODY["redirect_uri"]
    with local_server() as server:
        google, github = Google(server, code, page), Github(server, code, page)
        issuer = ScriptedIssuer(server, int(ManualClock().now().timestamp()))
        google.claims["email"] = issuer.info["email"] = email
        github.emails = [address(email, primary=True)]
        oidc = {"corp": issuer.settings}
        yield IdentitySettings(signup="open", google=google.settings, github=github.settings, oidc=oidc)
