"""Builds from source alone: their requests and results."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from tests.e2e.daemon import Build, Client, Pipeline
from tests.e2e.sources import post
from tests.waiting import until

_numbers = itertools.count(1)

NEVER = "import threading\nthreading.Event().wait()\n"
"""A pipeline file whose loading never ends."""


def another_pipeline(client: Client) -> Pipeline:
    """Make a pipeline with a new name."""
    return client.pipeline(f"pipeline-{next(_numbers)}")


def rejected(pipeline: Pipeline, source: bytes | None, **fields: Any) -> str:
    """Return the error of a source whose render fails; the answer and the build must agree."""
    answered = post(pipeline, source, **fields)
    assert answered.status_code == 422, answered.text
    error = answered.json()["error"]
    assert error["code"] == "build_plan_rejected"
    record = pipeline.client.get(f"pipelines/{pipeline.slug}/builds/{error['build_number']}")
    assert (record["state"], record["error_code"]) == ("failed", "render_failed")
    message: str = record["error_message"]
    assert error["message"] == f"render_failed: {message}"
    return message


def rendered(pipeline: Pipeline, source: bytes | None, **fields: Any) -> Build:
    """Post a source that must render; return its build."""
    answered = post(pipeline, source, **fields)
    assert answered.status_code == 201, answered.text
    return Build(pipeline.client, f"pipelines/{pipeline.slug}/builds/{answered.json()['number']}")


def render_log(build: Build) -> str:
    """Return the output of the pipeline files."""
    answered = build.client.request("GET", f"{build.path}/render-log")
    assert answered.status_code == 200, answered.text
    return answered.text


def first_build(pipeline: Pipeline) -> Build:
    """Wait for a pipeline's first build."""
    path = f"pipelines/{pipeline.slug}/builds"
    until(lambda: pipeline.client.get(path)["data"], "the build")
    return Build(pipeline.client, f"{path}/1")


@contextmanager
def posting(pipeline: Pipeline, source: bytes) -> Iterator[list[httpx.Response]]:
    """Post a build in a thread while the block runs; yield a list that gets the answer, if there is one."""
    answers: list[httpx.Response] = []

    def ask() -> None:
        with suppress(httpx.TransportError):  # the daemon may be killed in the meantime
            answers.append(post(pipeline, source))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        thread.join(60)
