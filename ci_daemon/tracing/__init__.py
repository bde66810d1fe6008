"""A trace of every build that has ended, for an OpenTelemetry collector: where its time went."""

from __future__ import annotations

from ci_daemon.tracing.settings import TracingSettings
from ci_daemon.tracing.tracer import Tracer, TracingUnavailable, open_collector

__all__ = ["Tracer", "TracingSettings", "TracingUnavailable", "open_collector"]
