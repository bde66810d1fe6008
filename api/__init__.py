"""The HTTP API: falcon resources over the storage and the live service, served by waitress."""

from __future__ import annotations

from api.app import create_app
from api.catalog import CATALOG
from api.request_id import RequestIdFilter
from api.server import CannotListen, Server, may_listen
from api.settings import HttpSettings, RateLimitSettings

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
