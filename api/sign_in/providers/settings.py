"""The configuration sections of identity providers, with their defaults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from api.sign_in.providers.provider import is_secure_url
from storage import immutable, pattern, required_setting, setting

if TYPE_CHECKING:
    from collections.abc import Iterable

_SCOPE = pattern(r"[\x21\x23-\x5b\x5d-\x7e]+", re.ASCII)


@immutable
class GoogleSettings:
    """Section ``[identity.google]``: signing in with Google. The URLs are Google's own."""

    client_id: str = setting("", "The client ID; if it is empty, nobody signs in with Google.")
    client_secret: str = setting("", "The client secret.", secret=True)
    authorize_url: str = setting("https://accounts.google.com/o/oauth2/v2/auth", "The page on which a person signs in.")
    token_url: str = setting("https://oauth2.googleapis.com/token", "The endpoint that takes the code.")
    userinfo_url: str = setting(
        "https://openidconnect.googleapis.com/v1/userinfo", "The endpoint that says who the person is."
    )

    def __post_init__(self) -> None:
        _check_credentials(self.client_id, self.client_secret)
        _check_urls(self, ("authorize_url", "token_url", "userinfo_url"))


@immutable
class GithubSettings:
    """Section ``[identity.github]``: signing in with GitHub. The URLs are those of github.com."""

    client_id: str = setting("", "The client ID; if it is empty, nobody signs in with GitHub.")
    client_secret: str = setting("", "The client secret.", secret=True)
    authorize_url: str = setting("https://github.com/login/oauth/authorize", "The page on which a person signs in.")
    token_url: str = setting("https://github.com/login/oauth/access_token", "The endpoint that takes the code.")
    userinfo_url: str = setting("https://api.github.com/user", "The endpoint that says who the person is.")
    emails_url: str = setting(
        "https://api.github.com/user/emails", "The endpoint that says which of the person's addresses are verified."
    )

    def __post_init__(self) -> None:
        _check_credentials(self.client_id, self.client_secret)
        _check_urls(self, ("authorize_url", "token_url", "userinfo_url", "emails_url"))


@immutable
class OidcSettings:
    """Signing in with an OpenID Connect issuer, such as Keycloak, Authentik, GitLab or Forgejo.

    There may be several of these sections. NAME, of lower-case letters, digits and single hyphens, is also the end of
    the issuer's path in the API.
    """

    issuer: str = required_setting(
        "The issuer's URL, exactly as its discovery document has it.", example="https://login.example.org/realms/main"
    )
    client_id: str = required_setting("The client ID.", example="ci-daemon")
    client_secret: str = required_setting("The client secret.", example="the secret of the client", secret=True)
    scopes: tuple[str, ...] = setting(
        ("openid", "email", "profile"), "The scopes to ask for; `openid` must be one of them."
    )
    title: str = setting("", "The name of the issuer for people; if it is empty, the section's own.")

    def __post_init__(self) -> None:
        if not is_secure_url(self.issuer) or "?" in self.issuer or "#" in self.issuer:
            raise ValueError(
                f'issuer must be an https:// URL without "?" and "#", or http:// on this host, not "{self.issuer}"'
            )
        if not self.client_id or not self.client_secret:
            raise ValueError(f"{'client_id' if not self.client_id else 'client_secret'} must not be empty")
        if "openid" not in self.scopes or not all(_SCOPE.fullmatch(scope) for scope in self.scopes):
            raise ValueError('scopes must be words, one of them "openid"')


def _check_credentials(client_id: str, client_secret: str) -> None:
    if client_id and not client_secret:
        raise ValueError("client_secret must be set too, because client_id is")
    if client_secret and not client_id:
        raise ValueError("client_id must be set too, because client_secret is")


def _check_urls(settings: object, names: Iterable[str]) -> None:
    for name in names:
        url = getattr(settings, name)
        if not is_secure_url(url):
            raise ValueError(f'{name} must be an https:// URL, or http:// on this host, not "{url}"')
