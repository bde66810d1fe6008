"""The addresses to which a provider may send a person back with a code. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.sign_in.providers.urls import origin_of

if TYPE_CHECKING:
    from api.settings import HttpSettings

__all__ = ["RedirectUris"]


class RedirectUris:
    """Pages of the service's own origin and of those in ``http.cors_origins``.

    A code that was sent to any other page is not taken: who got it there could sign in as the person. That includes the
    loopback of a person's computer, because command lines have a login of their own.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._origins = {origin_of(url) for url in (settings.url, *settings.cors_origins)} - {None}

    def accepts(self, uri: str) -> bool:
        """Tell whether a code may have been sent to a URI; not to one with a fragment (RFC 6749)."""
        return "#" not in uri and origin_of(uri) in self._origins
