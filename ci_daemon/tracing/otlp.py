"""Export of spans as OTLP over HTTP. Imported only if the configuration has an endpoint."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_daemon.tracing.spans import Span

_TIMEOUT = 10.0
_BATCH = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpExporter:
    """Sends spans as OTLP over HTTP to the collector at ``endpoint``."""

    def __init__(self, endpoint: str) -> None:
        self._exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=_TIMEOUT)
        self._resource = Resource.create({"service.name": "ci-daemon", "service.version": version("ci-daemon")})
        self._scope = InstrumentationScope("ci_daemon.tracing")

    def export(self, spans: Sequence[Span]) -> bool:
        """Send ended spans; return False if the collector does not accept them within seconds. Blocks."""
        readable = [self._readable(span) for span in spans]
        batches = (readable[start : start + _BATCH] for start in range(0, len(readable), _BATCH))
        return all(self._exporter.export(batch) is SpanExportResult.SUCCESS for batch in batches)

    def close(self) -> None:
        """Make a running `export` end soon."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_context(span, span.span_id),
            parent=None if span.parent_id is None else _context(span, span.parent_id),
            resource=self._resource,
            attributes=span.attributes,
            status=Status() if span.failure is None else Status(StatusCode.ERROR, span.failure),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
            instrumentation_scope=self._scope,
        )


def _context(span: Span, span_id: int) -> SpanContext:
    return SpanContext(span.trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def _nanoseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1) * 1000
