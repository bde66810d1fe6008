"""The identity providers of the configuration."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

    from api.sign_in.providers.bounded_http import ProviderConnection, ProviderHttp
    from api.sign_in.providers.provider import Provider
    from api.sign_in.settings import IdentitySettings
    from storage import Clock

_MOST_AT_ONCE = 32


class TooManyAtOnce(Exception):
    """The most sign-ins that may wait for providers at once do so already."""


class IdentityProviders:
    """The providers, and the connections to them. Safe in any thread.

    The number of requests that wait for providers is bounded, so that a slow one leaves threads to others.
    """

    def __init__(self, settings: IdentitySettings, clock: Clock) -> None:
        self._settings = settings
        self._slots = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._names = {each.issuer: name for name, each in settings.oidc.items()}
        self.google, self.github, self.oidc = _opened(settings, clock)

    @property
    def all(self) -> list[Provider]:
        """All providers, in the order in which a page shows them."""
        return [each for each in (self.google, self.github, *self.oidc.values()) if each is not None]

    def name_of(self, provider: str) -> str:
        """Return a provider's name in the configuration; the URL of an issuer that is there no more."""
        return self._names.get(provider, provider)

    @contextmanager
    def connection(self) -> Generator[ProviderConnection]:
        """Open a connection to any of them. Raises TooManyAtOnce."""
        if not self._slots.acquire(blocking=False):
            raise TooManyAtOnce
        try:
            yield self._http.connection()
        finally:
            self._slots.release()

    @cached_property
    def _http(self) -> ProviderHttp:
        from api.sign_in.providers.bounded_http import ProviderHttp  # noqa: PLC0415 - as below

        settings = self._settings
        return ProviderHttp(settings.provider_timeout, settings.named_hosts, settings.allowed_networks)


def _opened(settings: IdentitySettings, clock: Clock) -> tuple[Provider | None, Provider | None, dict[str, Provider]]:
    """Return Google, GitHub and the issuers by name, as far as they are configured."""
    if not (settings.google.client_id or settings.github.client_id or settings.oidc):
        return None, None, {}
    # 18 MB and 0.2 s, which an installation without providers does not need.
    from api.sign_in.providers.github import Github  # noqa: PLC0415
    from api.sign_in.providers.google import Google  # noqa: PLC0415
    from api.sign_in.providers.oidc import Oidc  # noqa: PLC0415

    return (
        Google(settings.google) if settings.google.client_id else None,
        Github(settings.github) if settings.github.client_id else None,
        {name: Oidc(name, each, clock) for name, each in settings.oidc.items()},
    )
