"""Home, an organization, a pipeline."""

from __future__ import annotations

from storage import BuildState, JobState
from tests.api.console.browser import Browser
from tests.api.world import Account, PipelinePath, World, steps


def test_home_leads_a_new_person_on(ada: Account):
    shown = Browser.of(ada).get("/").text
    assert "ci-daemon submit ." in shown
    assert "https://ci.example.org" in shown
    assert 'href="./ada-example-org/repositories"' in shown
    assert 'href="./ada-example-org/repositories"' in Browser.of(ada).get("/ada-example-org").text


def test_home_shows_what_waits_and_what_failed(world: World, ada: Account, pipeline: PipelinePath):
    failed = pipeline.build(message="Broken", pipeline_ir=steps(*(f"step{n}" for n in range(5))))
    for number in range(5):
        failed.job(number).end(JobState.FAILED)
    world.storage.builds.move(failed.stored.id, BuildState.SCHEDULED, BuildState.FAILED)
    pipeline.build(message="Waits")
    shown = Browser.of(ada).get("/").text
    waits, _, broken = shown.partition("Failed last")
    assert "Waits" in waits
    assert "host is full (4 of 4)" in waits
    assert "Broken" in broken
    assert "make step0, make step1, make step2 and 2 more" in broken


def test_home_names_the_last_build_if_nothing_runs(world: World, ada: Account, pipeline: PipelinePath):
    for message in ("First", "Second"):
        build = pipeline.build(message=message)
        world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.PASSED)
    shown = Browser.of(ada).get("/").text
    assert "The last build was" in shown
    assert ">demo #2</a>" in shown
    assert "#1" not in shown


def test_home_has_the_names_of_pipelines(ada: Account, pipeline: PipelinePath):
    ada.client.simulate_patch(pipeline.path, json={"name": "Web shop"})
    pipeline.build(message="Waits")
    assert '>Web shop #1 <span class="title">Waits</span></a>' in Browser.of(ada).get("/").text


def test_a_refused_request_is_in_no_figure_of_a_pipeline(world: World, ada: Account, pipeline: PipelinePath):
    build = pipeline.build(message="Good")
    world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.PASSED)
    for _ in range(3):
        assert pipeline.post(pipeline_ir="{").status_code == 422
    home = Browser.of(ada).get("/").text
    assert ">demo #1</a>" in home
    assert "Failed last" not in home
    listed = Browser.of(ada).get("/ada-example-org").text
    assert "100 %" in listed
    assert "failed" not in listed


def test_a_pipelines_list_says_which_jobs_failed_and_what_waits(world: World, ada: Account, pipeline: PipelinePath):
    failed = pipeline.build(message="Broken", pipeline_ir=steps("lint", "unit"))
    failed.job(0).end(JobState.PASSED)
    failed.job(1).end(JobState.FAILED)
    world.storage.builds.move(failed.stored.id, BuildState.SCHEDULED, BuildState.FAILED)
    pipeline.build(message="Waits")
    waits, _, broken = Browser.of(ada).get("/ada-example-org/pipelines/demo").text.partition("Broken")
    assert "host is full (4 of 4)</span>" in waits
    assert '<span class="detail">make unit</span>' in broken


def test_home_shows_only_organizations_of_the_caller(bob: Account, pipeline: PipelinePath):
    pipeline.build(message="Secret plan")
    assert "Secret plan" not in Browser.of(bob).get("/").text


def test_pipelines_are_filtered_by_name(ada: Account, pipeline: PipelinePath):
    pipeline.build()
    ada.pipeline("Web")
    browser = Browser.of(ada)
    assert browser.get("/ada-example-org").text.count('class="bars"') == 2
    shown = browser.get("/ada-example-org?q=WE").text
    assert ("/pipelines/web" in shown, "/pipelines/demo" in shown) == (True, False)
    assert "No pipeline has this name" in browser.get("/ada-example-org?q=%3Cb%3E").text


def test_an_organization_is_for_its_members(ada: Account, bob: Account):
    assert Browser.of(bob).get("/ada-example-org").status_code == 404


def test_builds_are_filtered_and_go_on(ada: Account, pipeline: PipelinePath):
    for number in range(35):
        pipeline.build(branch="main" if number % 2 else "other")
    browser, page = Browser.of(ada), "/ada-example-org/pipelines/demo"
    first = browser.get(page).text
    assert first.count("<li>\n<a") == 30
    assert "?before=6" in first
    assert browser.get(f"{page}?before=6").text.count("<li>\n<a") == 5
    assert browser.get(f"{page}?branch=main&state=scheduled").text.count("<li>\n<a") == 17
    assert "No build is like this" in browser.get(f"{page}?state=passed").text
    assert browser.get(f"{page}?state=nonsense&before=x").status_code == 200


def test_members_find_builds_by_their_author(world: World, ada: Account, pipeline: PipelinePath):
    pipeline.build()
    browser, page = Browser.of(ada), "/ada-example-org/pipelines/demo"
    shown = browser.get(f"{page}?author=AD").text
    assert "Ada</span>" in shown
    assert "No build is like this" in browser.get(f"{page}?author=%3Cb%3E").text
    ada.client.simulate_patch(f"{ada.path}/pipelines/demo", json={"visibility": "public"})
    public = Browser(world).get(f"{page}?author=nobody").text
    assert ("Ada<" in public, "Author" in public, "#1" in public) == (False, False, True)


def test_builds_that_ran_are_plotted(ada: Account, pipeline: PipelinePath):
    for seconds in (5, 7):
        build = pipeline.build()
        build.job().run_for(seconds)
        ada.world.storage.builds.move(build.stored.id, BuildState.RUNNING, BuildState.PASSED)
        ada.world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.PASSED)
    page = "/ada-example-org/pipelines/demo"
    assert "&#34;values&#34;" not in Browser.of(ada).get(page).text
    shown = Browser.of(ada).get(f"{page}?view=insights").text
    assert "&#34;values&#34;: [5.0, 7.0]" in shown
    assert "100 % passed" in Browser.of(ada).get("/ada-example-org").text
