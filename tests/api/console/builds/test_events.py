"""The changes of a build, as its open pages get them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from storage import BuildState, JobState
from tests.api.console.browser import Browser
from tests.api.world import Account, PipelinePath, World, steps


@pytest.fixture
def page(pipeline: PipelinePath) -> str:
    build = pipeline.build(pipeline_ir=steps("one", "two"))
    return f"/{build.stored.name.replace('/', '/pipelines/', 1).replace('/demo/', '/demo/builds/')}"


def end(world: World, page: str) -> None:
    org, pipeline, number = page.split("/")[1], page.split("/")[3], page.split("/")[5]
    build = world.storage.builds.find(org, pipeline, int(number))
    assert build is not None
    for job in world.storage.jobs.of_build(build.id):
        world.storage.jobs.move(job.id, job.state, JobState.CANCELED)
    world.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.CANCELED)


def test_a_watcher_gets_changes_until_the_end(world: World, ada: Account, page: str):
    world.engine.during_waits.append(lambda: end(world, page))
    seen = Browser.of(ada).get(page).text.partition("live?seen=")[2][:16]
    stream = Browser.of(ada).get(f"{page}/live?seen={seen}")
    assert stream.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert stream.text.count("event: changes") == 1
    assert '<li id="job-1">' in stream.text
    assert 'href="./../../../../ada-example-org/pipelines/demo/builds/1/jobs/' in stream.text
    assert stream.text.endswith("event: end\ndata: \n\n")


def test_without_a_slot_the_browser_asks_again(world: World, ada: Account, page: str):
    end(world, page)
    browser = Browser.of(ada)
    slots = [browser.get(f"{page}/live") for _ in range(2)]
    assert all(slot.text.startswith("retry: 3000\n\n") for slot in slots)


def test_a_page_behind_a_proxy_that_keeps_answers_asks_again(ada: Account, page: str):
    answered = Browser.of(ada).get(f"{page}/live?once=yes").text
    assert "event: begin" not in answered
    assert answered.count("event: changes") == 1
    assert answered.endswith("event: again\ndata: \n\n")


def test_strangers_watch_public_builds_alone(world: World, bob: Account, ada: Account, page: str):
    end(world, page)
    assert Browser.of(bob).get(f"{page}/live").status_code == 404
    assert Browser(world).get(f"{page}/live").status_code == 401
    ada.client.simulate_patch(f"{ada.path}/pipelines/demo", json={"visibility": "public"})
    assert Browser(world).get(f"{page}/live").status_code == 200


def test_a_quiet_build_is_kept_open(world: World, ada: Account, page: str):
    def quiet() -> None:
        world.engine.during_waits.append(lambda: end(world, page))
        world.clock.advance(timedelta(seconds=20).total_seconds())

    world.engine.during_waits.append(quiet)
    assert ": still here\n\n" in Browser.of(ada).get(f"{page}/live").text
