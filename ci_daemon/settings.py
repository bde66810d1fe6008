"""The configuration sections of the service's own log and of traces, with their defaults."""

from __future__ import annotations

from typing import Literal

from storage import immutable, pattern, setting

_URL = pattern(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


@immutable
class JournalSettings:
    """Section ``[journal]``: the service's own log."""

    level: Literal["debug", "info", "warning", "error"] = setting("info", "The lowest level that is logged.", live=True)


@immutable
class TracingSettings:
    """Section ``[tracing]``: the OpenTelemetry collector for traces of builds."""

    endpoint: str = setting(
        "",
        'The URL of the collector for OTLP over HTTP, such as "http://127.0.0.1:4318"; if it is empty, no traces are'
        " sent.",
    )

    def __post_init__(self) -> None:
        if self.endpoint and not _URL.fullmatch(self.endpoint):
            raise ValueError(f'endpoint must be such as "http://127.0.0.1:4318", not "{self.endpoint}"')
