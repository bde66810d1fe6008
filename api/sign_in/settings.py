"""The configuration section of accounts and their sign-in, with its defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - the type of a key, which is read when the service runs
from dataclasses import field
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from api.sign_in.providers.settings import GithubSettings, GoogleSettings, OidcSettings
from storage import SignUpMode, SignUpPolicy, immutable, networks_of, pattern, setting

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

_DOMAIN = pattern(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)
_ORIGIN = pattern(r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?/?", re.ASCII | re.IGNORECASE)


@immutable
class IdentitySettings:
    """Section ``[identity]``: accounts, and who may make one.

    The first account of a service is its owner's, who gets a link for it on the host. `ci-daemon user add` makes
    others, whatever these keys say.
    """

    signup: Literal["open", "invited", "closed"] = setting(
        "invited", "Who may make an account: anybody, those with a pending invite, or nobody."
    )
    signup_domains: tuple[str, ...] = setting(
        (), "The domains of e-mail addresses that may sign up; if there are none, all may."
    )
    provider_timeout: float = setting(
        10.0, "The most seconds that a sign-in waits for its identity provider.", above=0, at_most=60
    )
    networks: tuple[str, ...] = setting(
        (),
        "The networks of this host's surroundings in which an issuer's endpoints may be that are not at its own host,"
        ' as in `"10.1.0.0/16"`; all others must be public.',
    )
    google: GoogleSettings = field(default_factory=GoogleSettings)
    github: GithubSettings = field(default_factory=GithubSettings)
    oidc: Mapping[str, OidcSettings] = setting({}, "The OpenID Connect issuers, each by a name of its own.")
    rp_id: str | None = setting(
        None,
        "The domain that passkeys belong to: the host of `http.base_url`, which is the default, or a domain above it.",
        example="example.org",
    )
    rp_name: str = setting("ci-daemon", "The name of the service that authenticators show.")
    origins: tuple[str, ...] = setting(
        (),
        "The origins whose pages may use passkeys, at `rp_id` or below it; by default that of `http.base_url`.",
    )

    def __post_init__(self) -> None:
        for name in ("google", "github"):
            if name in self.oidc:
                raise ValueError(f'an issuer must not be named "{name}", whose page it would share: rename its section')
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f'origins must be origins such as "https://ci.example.org", not "{origin}"')
        for domain in self.signup_domains:
            if not _DOMAIN.fullmatch(domain):
                raise ValueError(f'signup_domains must be domains such as "example.org", not "{domain}"')

        _ = self.allowed_networks

    @property
    def allowed_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks in which endpoints of issuers may be although they are not public."""
        return networks_of(self.networks)

    @property
    def named_hosts(self) -> frozenset[str]:
        """The hosts of the providers' URLs that the owner wrote down."""
        google, github = self.google, self.github
        urls = [
            *(google.token_url, google.userinfo_url, github.token_url, github.userinfo_url, github.emails_url),
            *(each.issuer for each in self.oidc.values()),
        ]
        return frozenset(urlsplit(each).hostname or "" for each in urls)

    @property
    def sign_up_policy(self) -> SignUpPolicy:
        """The rules for sign-ups."""
        return SignUpPolicy(SignUpMode(self.signup), frozenset(domain.lower() for domain in self.signup_domains))
