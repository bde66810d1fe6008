"""A trace of every build that has ended, sent to an OpenTelemetry collector."""

from __future__ import annotations

from ci_daemon.tracing.settings import TracingSettings
from ci_daemon.tracing.tracer import Tracer, TracingUnavailable, open_collector

__all__ = ["Tracer", "TracingSettings", "TracingUnavailable", "open_collector"]
