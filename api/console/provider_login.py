"""Signing in with an identity provider: the way there, and the way back."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from api.console.cookies import local_path
from api.console.errors import Page
from api.console.pages import redirect
from api.errors.catalog import ApiError
from api.openapi.operations import performs
from api.sign_in.providers.provider import CodeExchange

if TYPE_CHECKING:
    import falcon

    from api.console.site import Site
    from api.sign_in.providers.provider import Provider

SIGN_IN = "__Host-sign-in"
_LIFETIME = timedelta(minutes=10)
_PURPOSE = "sign-in with a provider"
_ERROR = re.compile(r"[a-z_]{1,40}", re.ASCII)


class ProviderLoginPage(Page):
    """``/login/with/{provider}`` and ``/login/with/{provider}/callback``.

    What belongs to one sign-in is in a signed cookie. So only the browser that began it can finish it, once, with the
    provider that it was sent to: nobody else's code signs it in.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._sign_in = site.later.provider_sign_in
        self._cookies = site.cookies
        self._url = site.url
        self._signer = site.serving.signer
        self._clock = site.clock

    def on_get(self, req: falcon.Request, resp: falcon.Response, provider: str) -> None:
        """Send the person to the provider."""
        found = self._provider(provider)
        step, about = self._sign_in.authorize_step(found), found.about
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        kept = {
            "name": about.name,
            "state": state,
            "nonce": nonce if about.nonce else None,
            "verifier": verifier if step.pkce else None,
            "issuer": step.issuer,
            "next": local_path(req.get_param("next") or ""),
            "until": (self._clock.now() + _LIFETIME).isoformat(),
        }
        self._cookies.keep(resp, SIGN_IN, self._signer.sign(_PURPOSE, kept), int(_LIFETIME.total_seconds()))
        asked = {
            "response_type": "code",
            "client_id": about.client_id,
            "redirect_uri": self._redirect_uri(about.name),
            "scope": " ".join(about.scopes),
            "state": state,
        }
        if about.nonce:
            asked["nonce"] = nonce
        if step.pkce:
            challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
            asked |= {"code_challenge": challenge, "code_challenge_method": "S256"}
        resp.status = 303
        resp.cache_control = ["no-store"]
        resp.location = f"{step.url}{'&' if '?' in step.url else '?'}{urlencode(asked)}"

    @performs("authGoogle")
    def on_get_google(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Sign in the person whom Google sends back."""
        self._finish(req, resp, "google")

    @performs("authGithub")
    def on_get_github(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Sign in the person whom GitHub sends back."""
        self._finish(req, resp, "github")

    @performs("authOidc")
    def on_get_oidc(self, req: falcon.Request, resp: falcon.Response, provider: str) -> None:
        """Sign in the person whom an issuer sends back."""
        self._finish(req, resp, provider)

    def _finish(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        self._site.rates.limit_address(req, resp)
        provider = self._provider(name)
        kept = self._kept(req, name)
        self._cookies.drop(resp, SIGN_IN)
        error, code, issuer = (req.get_param(name) for name in ("error", "code", "iss"))
        if issuer is not None and kept.get("issuer") not in {None, issuer}:
            raise ApiError("sign_in_interrupted", f"another issuer than {provider.about.title} sent you back")
        if error is not None or not code:
            raise ApiError("sign_in_interrupted", _reason(provider.about.title, error))
        exchange = CodeExchange(code, self._redirect_uri(name), kept["verifier"], kept["nonce"])
        _, token = self._sign_in.finish(self._site.visitor(req, resp), provider, exchange)
        self._cookies.begin_session(resp, token)
        redirect(req, resp, kept["next"] or "")

    def _kept(self, req: falcon.Request, name: str) -> dict[str, str | None]:
        """Return what belongs to the sign-in that the browser began. Raises ApiError ``sign_in_interrupted``."""
        kept = self._signer.open(_PURPOSE, req.cookies.get(SIGN_IN, ""))
        state = req.get_param("state") or ""
        if (
            kept is None
            or kept["name"] != name
            or not hmac.compare_digest(kept["state"].encode(), state.encode())
            or datetime.fromisoformat(kept["until"]) <= self._clock.now()
        ):
            raise ApiError(
                "sign_in_interrupted", "this browser did not begin this sign-in, or more than ten minutes ago"
            )
        fields: dict[str, str | None] = kept
        return fields

    def _provider(self, name: str) -> Provider:
        known = self._sign_in.providers
        found = {"google": known.google, "github": known.github}.get(name) or known.oidc.get(name)
        if found is None or found.about.name != name:
            raise ApiError("oauth_not_configured", f"the service knows no identity provider {name[:50]}")
        return found

    def _redirect_uri(self, name: str) -> str:
        return f"{self._url}/login/with/{name}/callback"


def _reason(title: str, error: str | None) -> str:
    if error == "access_denied":
        return f"you did not agree at {title}, so nobody was signed in"
    told = f", but {error}" if error is not None and _ERROR.fullmatch(error) else ""
    return f"{title} sent no code{told}"
