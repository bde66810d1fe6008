"""The HTTP API: falcon resources over the storage and the live service, served by waitress."""

from __future__ import annotations

from api.app import create_app
from api.catalog import CATALOG, Problem
from api.engine import Engine, Watch
from api.request_id import RequestIdFilter
from api.server import CannotListen, Server
from api.settings import HttpSettings, RateLimitSettings

__all__ = [
    "CATALOG",
    "CannotListen",
    "Engine",
    "HttpSettings",
    "Problem",
    "RateLimitSettings",
    "RequestIdFilter",
    "Server",
    "Watch",
    "create_app",
]
