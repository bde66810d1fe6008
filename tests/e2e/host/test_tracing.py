"""Traces of builds at a collector: their contents, and that no outage or crash loses one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.e2e.daemon import Build, Daemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.e2e.sources import archive
from tests.waiting import until


class Collector(ThreadingHTTPServer):
    """Receives OTLP over HTTP, and fails if told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.fails = False
        self.refused = threading.Event()
        self.spans: list[Span] = []
        self.services: set[str] = set()

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            about = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.services.add(about["service.name"])
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def trace(self, build: Build) -> list[Span]:
        """Wait for a build's trace."""
        trace_id = UUID(build.record()["id"]).bytes
        return until(lambda: [span for span in self.spans if span.trace_id == trace_id], "the build's trace")


class Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.fails:
            self.server.refused.set()
        else:
            assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            self.server.take(ExportTraceServiceRequest.FromString(body))
        self.send_response(500 if self.server.fails else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        yield collector
        collector.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def settings(collector: Collector) -> dict[str, str]:
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_TRACING_ENDPOINT": endpoint}


def children(spans: list[Span], parent: Span) -> dict[str, Span]:
    return {span.name: span for span in spans if span.parent_span_id == parent.span_id}


def test_a_build_is_one_trace_down_to_the_parts_of_each_attempt(pipeline: Pipeline, collector: Collector):
    graph = Graph().step("parent", "cat made; sleep 1; echo x >left", runner_args={"artifacts": ["left"]})
    again = {"retry": {"limit": 1}}
    graph.step("child", 'test "$CI_ATTEMPT" = 2', builds_in="parent", runner_args=again)
    build = pipeline.build(graph.ir(), source=archive({"made": "by hand"}))
    assert build.finish()["state"] == "passed"
    spans = collector.trace(build)
    (root,) = (span for span in spans if not span.parent_span_id)
    assert root.name == "demo #1"
    about = {each.key: each.value for each in root.attributes}
    assert about["cicd.pipeline.name"].string_value == f"{pipeline.client.org}/demo"
    assert about["cicd.pipeline.result"].string_value == "success"
    assert about["vcs.ref.head.name"].string_value == "main"
    parts = {"wait", "lease", "source", "command"}
    parent = children(spans, root)["parent"]
    assert children(spans, parent).keys() == parts | {"artifacts", "snapshot"}
    command = children(spans, parent)["command"]
    # The recorded start is somewhat late: it is the time of the report.
    assert command.end_time_unix_nano - command.start_time_unix_nano >= 500_000_000
    first, second = (span for span in spans if span.name == "child")
    assert (first.status.code, first.status.message) == (Status.STATUS_CODE_ERROR, "exit 1")
    assert second.status.code == Status.STATUS_CODE_UNSET
    assert children(spans, second).keys() == parts
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        for part in children(spans, span).values():
            assert span.start_time_unix_nano <= part.start_time_unix_nano
            assert part.end_time_unix_nano <= span.end_time_unix_nano
    assert collector.services == {"ci-daemon"}


def test_a_trace_survives_an_absent_collector_and_a_crash(daemon: Daemon, pipeline: Pipeline, collector: Collector):
    collector.fails = True
    build = pipeline.build(one("true"))
    assert build.finish()["state"] == "passed"
    assert collector.refused.wait(30)
    until(lambda: "accepts no traces" in daemon.log, "a line about it in the log")
    assert pipeline.build(one("true")).finish()["state"] == "passed"
    daemon.kill()
    collector.fails = False
    daemon.start()
    assert {span.name for span in collector.trace(build)} == {"demo #1", "only", "wait", "lease", "start", "command"}
    assert daemon.log.count("accepts no traces") == 1
    assert "opentelemetry" not in daemon.log
