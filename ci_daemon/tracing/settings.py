"""The configuration section of traces."""

from __future__ import annotations

import re

from storage import immutable, setting

_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


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
