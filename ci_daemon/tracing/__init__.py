"""A trace of every build that has ended, sent to an OpenTelemetry collector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.settings import TracingSettings
    from ci_daemon.tracing.tracer import Tracer, TracingUnavailable, open_exporter
else:
    __getattr__ = on_first_use(__name__)
