"""The exchange of a code for tokens (RFC 6749, section 4.1.3), by Authlib."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote_plus

import httpx
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.client import OAuth2Client

from api.sign_in.providers.person import ProviderError
from storage import immutable

if TYPE_CHECKING:
    from api.sign_in.providers.bounded_http import ProviderConnection
    from api.sign_in.providers.person import CodeExchange

ClientAuth = Literal["basic", "post"]

_WORD = re.compile(r"[a-z0-9_]{1,60}", re.ASCII)
_BEARER = re.compile(r"[!-~]{1,16384}", re.ASCII)


class _WrongClientAuth(ProviderError):
    """The provider does not know the client, or not by this method."""


@immutable
class Tokens:
    """An access token and, of OpenID Connect, an ID token that is not verified yet."""

    access_token: str
    id_token: str | None


@immutable
class TokenEndpoint:
    """A provider's token endpoint, and this service's credentials there.

    They are sent by the first of the ``methods``, and if that is not the one that the client is registered for, by the
    next: as fields of the form, or in the header.
    """

    url: str
    client_id: str
    client_secret: str
    methods: tuple[ClientAuth, ...] = ("post",)

    def exchange(self, connection: ProviderConnection, exchange: CodeExchange) -> Tokens:
        """Exchange a code. Raises ProviderError."""
        *others, last = self.methods
        for method in others:
            try:
                return self._exchange(connection, exchange, method)
            except _WrongClientAuth:
                continue
        return self._exchange(connection, exchange, last)

    def _exchange(self, connection: ProviderConnection, exchange: CodeExchange, method: ClientAuth) -> Tokens:
        form = {"code": exchange.code, "redirect_uri": exchange.redirect_uri}
        if exchange.code_verifier is not None:
            form["code_verifier"] = exchange.code_verifier
        if method == "basic":
            auth: object = httpx.BasicAuth(quote_plus(self.client_id), quote_plus(self.client_secret))
        else:
            form |= {"client_id": self.client_id, "client_secret": self.client_secret}
            auth = httpx.USE_CLIENT_DEFAULT
        client = OAuth2Client(connection.session)
        try:
            answered = client.fetch_token(self.url, grant_type="authorization_code", auth=auth, **form)
        except OAuth2Error as error:
            kind = _WrongClientAuth if error.error == "invalid_client" else ProviderError
            raise kind(f"the provider refuses the code: {_word(error.error)}") from None
        except (httpx.HTTPStatusError, ValueError, TypeError, OverflowError, RecursionError):
            raise ProviderError("the provider's answer to the code is no token") from None
        access_token, token_type = answered.get("access_token"), answered.get("token_type")
        if not isinstance(access_token, str) or not _BEARER.fullmatch(access_token):
            raise ProviderError("the provider's answer to the code has no access token")
        if not isinstance(token_type, str) or token_type.lower() != "bearer":
            raise ProviderError("the provider's answer to the code is no bearer token")
        id_token = answered.get("id_token")
        return Tokens(access_token, id_token if isinstance(id_token, str) else None)


def _word(told: object) -> str:
    """Return a provider's error code; what it may say beside that is not repeated."""
    return told if isinstance(told, str) and _WORD.fullmatch(told) else "for a reason that it does not name"
