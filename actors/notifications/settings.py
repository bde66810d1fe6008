"""The configuration section of notifications, with its defaults."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network

from storage import immutable, setting

_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)


@immutable
class NotificationSettings:
    """Section ``[notifications]``: what is told about the ends of builds, and to whom."""

    networks: tuple[str, ...] = setting(
        (),
        "The networks of this host's surroundings that webhooks may be sent to, also without encryption, as in"
        ' `"10.1.0.0/16"`; all others must be public.',
        live=True,
    )
    mail_domains: tuple[str, ...] = setting(
        (),
        "The domains at which the authors of commits get mail without an account; all others get it only as members of"
        " the organization.",
        live=True,
    )
    timeout: float = setting(15.0, "The most seconds that an endpoint may take.", above=0, at_most=60, live=True)

    def __post_init__(self) -> None:
        for network in self.networks:
            try:
                ip_network(network)
            except ValueError as error:
                raise ValueError(f'networks must be networks such as "10.1.0.0/16": {error}') from None
        for domain in self.mail_domains:
            if not _DOMAIN.fullmatch(domain):
                raise ValueError(f'mail_domains must be domains such as "example.org", not "{domain}"')

    @property
    def allowed_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks that webhooks may be sent to although they are not public."""
        return tuple(ip_network(each) for each in self.networks)
