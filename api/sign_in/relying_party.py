"""The relying party of passkeys: the site that they belong to, and the origins of its pages."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from storage import immutable, pattern

if TYPE_CHECKING:
    from api.settings import HttpSettings
    from api.sign_in.settings import IdentitySettings

_LOCAL = "localhost"
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = pattern(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*", re.ASCII)
_PORTS = {"http": 80, "https": 443}


@immutable
class RelyingParty:
    """A site with passkeys, which browsers use only on pages of the domain ``id`` and those below it.

    ``warning`` says why no browser will, None if browsers may.
    """

    id: str
    name: str
    origins: tuple[str, ...]
    warning: str | None = None

    @classmethod
    def of(cls, identity: IdentitySettings, http: HttpSettings) -> RelyingParty:
        """Return the relying party of a configuration.

        By default it is the host of the service's address. An IP address cannot be one: then it is localhost, which
        browsers accept from the same machine.

        Raises:
            ValueError: `identity.rp_id` or `identity.origins` do not fit `http.base_url`.
        """
        host, port = _host_and_port(http.url)
        warning = None
        if _is_address(host):
            if http.base_url is not None:
                warning = f"browsers do not use passkeys at an IP address: set http.base_url to a name, not {http.url}"
            host, served = _LOCAL, _origin("http", _LOCAL, port)
        else:
            served = _origin(urlsplit(http.url).scheme, host, port)
        if identity.rp_id is not None:
            _check_id(identity.rp_id, host, http.url)
        party_id = identity.rp_id or host
        for origin in identity.origins:
            _check_origin(origin, party_id)
        origins = tuple(dict.fromkeys(map(_normal, identity.origins))) or (served,)
        if warning is None and not any(map(_is_secure, origins)):
            warning = f"browsers use passkeys only on pages of https and of http://localhost, not of {origins[0]}"
        return cls(party_id, identity.rp_name, origins, warning)


def _check_id(party_id: str, host: str, url: str) -> None:
    """Raise ValueError if no browser accepts a relying party on pages of a host."""
    if _is_address(party_id):
        raise ValueError(f'identity.rp_id must be a domain, not the IP address "{party_id}": browsers refuse those')
    if not _DOMAIN.fullmatch(party_id):
        raise ValueError(f'identity.rp_id must be a domain such as "ci.example.org", without a port, not "{party_id}"')
    if not _is_within(host, party_id):
        raise ValueError(
            f'identity.rp_id must be the host of http.base_url or a domain above it: "{party_id}" is neither, for {url}'
        )
    if party_id != host and _is_public_suffix(party_id):
        raise ValueError(f'identity.rp_id must not be the public suffix "{party_id}", under which others have domains')


def _check_origin(origin: str, party_id: str) -> None:
    """Raise ValueError if pages of an origin cannot use the passkeys of a relying party."""
    host, _ = _host_and_port(origin)
    if not _is_secure(origin):
        raise ValueError(f'identity.origins must begin with https://, or be at http://localhost, not "{origin}"')
    if not _is_within(host, party_id):
        raise ValueError(f'identity.origins must be at {party_id} or a domain below it, unlike "{origin}"')


def _is_public_suffix(domain: str) -> bool:
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - 50 ms, for a domain above the service's host alone

    return bool(PublicSuffixList().is_public(domain))


def _is_within(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


def _is_secure(origin: str) -> bool:
    """Tell whether browsers trust the connection to an origin."""
    host, _ = _host_and_port(origin)
    return origin.lower().startswith("https://") or _is_within(host, _LOCAL)


def _host_and_port(url: str) -> tuple[str, int | None]:
    """Return the host of a URL in lower case, and its port, None if it is not given."""
    parts = urlsplit(url)
    return (parts.hostname or "").rstrip("."), parts.port


def _normal(origin: str) -> str:
    """Return an origin as browsers write it."""
    host, port = _host_and_port(origin)
    return _origin(urlsplit(origin).scheme, host, port)


def _origin(scheme: str, host: str, port: int | None) -> str:
    return f"{scheme}://{host}" if port in {None, _PORTS.get(scheme)} else f"{scheme}://{host}:{port}"


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
