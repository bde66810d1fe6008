"""Builds of what somebody names in a connected repository."""

from __future__ import annotations

from html import unescape

import pytest

from storage import Declaration, DeclaringRepository, FetchedSource
from tests.api.console.browser import Browser
from tests.api.world import Account, PipelinePath, World

INPUTS = {
    "target": {"choice": ["staging", "<b>production"], "default": "staging", "help": "Where to"},
    "dry_run": {"boolean": True},
    "count": {"number": True, "default": "3"},
    "note": {"required": True},
}
PAGE = "/ada-example-org/pipelines/demo"


@pytest.fixture
def connected(world: World, ada: Account) -> PipelinePath:
    """A pipeline whose repository is connected, and declares inputs."""
    made = ada.pipeline("demo", repository="https://git.example.org/acme/web", repo_name="acme/web", source_slug="ci")
    organization = world.storage.organizations.by_slug(ada.org)
    assert organization is not None
    world.storage.repositories.connect(organization.id, "https://git.example.org/acme/web", "acme/web", 60)
    repository = DeclaringRepository(organization.id, "acme/web", "https://git.example.org/acme/web")
    world.storage.declarations.follow(repository, {"ci": Declaration("ci", True, (), inputs=INPUTS)})
    return made


def start(pipeline: PipelinePath, **body: object) -> object:
    return pipeline.account.client.simulate_post(f"{pipeline.path}/start", json=body)


def test_what_is_named_is_to_be_fetched(world: World, connected: PipelinePath):
    started = start(connected, ref="v1", inputs={"target": "staging", "dry_run": True})
    assert started.status_code == 201, started.text  # type: ignore[attr-defined]
    shown = started.json  # type: ignore[attr-defined]
    assert (shown["state"], shown["branch"], shown["commit"]) == ("scheduled", "v1", "")
    assert shown["inputs"] == {"target": "staging", "dry_run": "true"}
    (render,) = world.storage.renders.to_fetch()
    assert (render.ref, world.storage.renders.due(), world.engine.rendering) == ("v1", [], [render.build_id])


def test_without_a_name_the_default_branch_is_built(world: World, connected: PipelinePath):
    start(connected)
    assert [each.ref for each in world.storage.renders.to_fetch()] == ["main"]


def test_a_source_that_is_fetched_is_rendered(world: World, connected: PipelinePath):
    start(connected, ref="#7", env={"A": "1", "CI_PULL_REQUEST": "8"})
    (render,) = world.storage.renders.to_fetch()
    source = FetchedSource("eve:x", "c0ffee", "Theirs", b"", {"CI_PULL_REQUEST": "7"}, "pull/1/7", True)
    assert world.storage.renders.fetched(render.build_id, source)
    build = world.storage.builds.get(render.build_id)
    assert build is not None
    assert (build.branch, build.commit, build.message, build.untrusted, build.from_fork, build.has_source) == (
        "eve:x", "c0ffee", "Theirs", True, True, True,
    )  # fmt: skip
    assert world.storage.builds.env(build.id) == {"A": "1", "CI_PULL_REQUEST": "7"}
    assert [each.build_id for each in world.storage.renders.due()] == [build.id]
    assert not world.storage.renders.fetched(render.build_id, source)


def test_a_pull_request_that_needs_an_approval_waits_for_it(world: World, connected: PipelinePath):
    start(connected, ref="#7")
    (render,) = world.storage.renders.to_fetch()
    world.storage.renders.fetched(render.build_id, FetchedSource("x", "c", "m", b"", approval_reason="eve is new"))
    assert world.storage.renders.due() == []
    shown = connected.account.client.simulate_get(f"{connected.path}/builds/1").json
    assert shown["pending_reason"] == "waiting for approval: eve is new"
    assert connected.account.client.simulate_post(f"{connected.path}/builds/1/approve").status_code == 200
    assert [each.build_id for each in world.storage.renders.due()] == [render.build_id]


def test_a_canceled_build_is_not_fetched(world: World, connected: PipelinePath):
    start(connected)
    (render,) = world.storage.renders.to_fetch()
    assert world.storage.renders.cancel(render.build_id)
    assert world.storage.renders.to_fetch() == []
    assert not world.storage.renders.fetched(render.build_id, FetchedSource("main", "c", "m", b""))


def test_a_pipeline_without_a_connected_repository_is_refused(pipeline: PipelinePath):
    refused = start(pipeline, ref="main")
    assert (refused.status_code, refused.json["error"]["code"]) == (409, "repository_not_connected")  # type: ignore[attr-defined]


@pytest.mark.parametrize("body", [{"ref": "x" * 256}, {"ref": ""}, {"ref": "a\0b"}, {"inputs": {"a": "x" * 2000}}])
def test_a_start_out_of_bounds_makes_nothing(world: World, connected: PipelinePath, body: dict[str, object]):
    assert start(connected, **body).json["error"]["code"] == "invalid_body"  # type: ignore[attr-defined]
    assert world.storage.renders.to_fetch() == []


def test_a_rebuild_of_what_could_not_be_fetched_fetches_it(world: World, connected: PipelinePath):
    start(connected, ref="nowhere", inputs={"note": "x"})
    (render,) = world.storage.renders.to_fetch()
    world.storage.renders.refuse(render.build_id, "render_failed", "there is no such branch")
    connected.account.client.simulate_post(f"{connected.path}/builds/1/rebuild", headers={"Prefer": "x"})
    (again,) = world.storage.renders.to_fetch()
    build = world.storage.builds.get(again.build_id)
    assert build is not None
    assert (again.ref, build.inputs, build.rebuild_of) == ("nowhere", {"note": "x"}, 1)


def test_the_form_has_a_field_for_each_input(world: World, ada: Account, connected: PipelinePath):
    page = Browser.of(ada).get(PAGE).text
    assert '<option value="staging" selected>staging</option>' in page
    assert "&lt;b&gt;production" in page
    assert "<b>production" not in page
    assert 'name="input-count" value="3" maxlength="1024" type="number" step="any"' in page
    assert 'name="input-note" value="" maxlength="1024" required' in unescape(page)
    fields = {"input-target": "staging", "input-dry_run": "true", "input-count": "", "input-note": "$(touch x)"}
    started = Browser.of(ada).send(PAGE, f"{PAGE[1:]}/start", ref="v1", **fields)
    assert started.headers["Location"] == f"./../../..{PAGE}/builds/1"
    (render,) = world.storage.renders.to_fetch()
    build = world.storage.builds.get(render.build_id)
    assert build is not None
    assert (render.ref, build.source) == ("v1", "ui")
    assert build.inputs == {"target": "staging", "dry_run": "true", "note": "$(touch x)"}
    assert '<div><dt>note</dt><dd class="ref">$(touch x)</dd></div>' in Browser.of(ada).get(f"{PAGE}/builds/1").text


def test_a_page_without_a_connected_repository_has_no_such_form(ada: Account, pipeline: PipelinePath):
    assert "/start" not in Browser.of(ada).get(PAGE).text
