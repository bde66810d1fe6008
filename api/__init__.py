"""The HTTP API: falcon resources over the storage and the live service, served by waitress.

The server's modules are imported on first use, because most commands only read the settings.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from api.request_id import RequestIdFilter
from api.settings import HttpSettings, RateLimitSettings

if TYPE_CHECKING:
    from api.app import create_app
    from api.catalog import CATALOG
    from api.server import CannotListen, Server, may_listen

__all__ = [
    "CATALOG",
    "CannotListen",
    "HttpSettings",
    "RateLimitSettings",
    "RequestIdFilter",
    "Server",
    "create_app",
    "may_listen",
]

_LATER = {
    "CATALOG": "api.catalog",
    "CannotListen": "api.server",
    "Server": "api.server",
    "create_app": "api.app",
    "may_listen": "api.server",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)
