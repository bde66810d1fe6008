"""A build that several people watch."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from api.console.builds.live import LiveBuild, LiveBuilds, Moment
from api.console.builds.states import BuildView, JobView, view_of
from storage import JobState
from tests.api.world import PipelinePath, World, steps


class Watched:
    """A build that is read and written as often as is counted."""

    def __init__(self, view: BuildView) -> None:
        self.view = view
        self.taken = 0
        self.written = 0
        self.live = LiveBuild(self.take, self.write, pause=lambda _: None)

    def take(self) -> BuildView:
        self.taken += 1
        return self.view

    def write(self, view: BuildView, changed: tuple[JobView, ...]) -> str:
        self.written += 1
        return "\n".join(["<summary>", *(f"<li>{job.name}" for job in changed)])

    def move(self, position: int, state: JobState) -> None:
        jobs = list(self.view.jobs)
        jobs[position] = replace(jobs[position], state=state)
        self.view = replace(self.view, jobs=tuple(jobs))


@pytest.fixture
def watched(world: World, pipeline: PipelinePath) -> Watched:
    build = pipeline.build(pipeline_ir=steps("one", "two"))
    return Watched(view_of(world.storage, world.engine, build.stored, str))


def data(event: bytes) -> dict[str, str]:
    """Return the data of each event in a piece of the stream."""
    found = {}
    for block in event.decode().strip().split("\n\n"):
        lines = [line.partition(": ")[::2] for line in block.split("\n")]
        found[dict(lines)["event"]] = "\n".join(value for name, value in lines if name == "data")
    return found


def test_an_event_has_only_what_changed(watched: Watched):
    first = watched.live.latest(time.monotonic())
    watched.move(1, JobState.RUNNING)
    event = watched.live.event(first.tag, now := watched.live.latest(time.monotonic()))
    assert json.loads(data(event)["states"]) == {"1": "running"}
    assert data(event)["changes"] == "<summary>\n<li>make two"
    assert f"id: {now.tag}\n" in event.decode()


def test_from_an_unknown_moment_an_event_has_all(watched: Watched):
    event = watched.live.event("0" * 16, watched.live.latest(time.monotonic()))
    assert set(json.loads(data(event)["states"])) == {"0", "1"}


def test_many_watchers_cost_one_reading_and_one_writing(watched: Watched):
    first = watched.live.latest(time.monotonic())
    watched.move(0, JobState.PASSED)
    woken = time.monotonic()
    events = {watched.live.event(first.tag, watched.live.latest(woken)) for _ in range(200)}
    assert (len(events), watched.taken, watched.written) == (1, 2, 1)


def test_the_same_content_has_the_same_tag(watched: Watched):
    tag = Moment(watched.view).tag
    assert watched.live.latest(time.monotonic()).tag == tag
    watched.move(0, JobState.FAILED)
    assert Moment(watched.view).tag != tag


def test_nothing_is_kept_of_a_build_that_nobody_watches(watched: Watched):
    builds = LiveBuilds()
    with builds.watch(1, lambda: watched.live) as one, builds.watch(1, lambda: watched.live) as other:
        assert one is other
        assert len(builds) == 1
    assert len(builds) == 0
