"""Home, an organization, a pipeline."""

from __future__ import annotations

import re

import pytest

from storage import BuildState, JobState, Role
from tests.api.console.browser import Browser
from tests.api.world import Account, PipelinePath, World, steps


def test_home_leads_a_new_person_on(ada: Account):
    shown = Browser.of(ada).get("/").text
    assert "ci-daemon submit ." in shown
    assert "https://ci.example.org" in shown
    assert 'href="./ada-example-org/repositories"' in shown
    assert 'href="./ada-example-org/repositories"' in Browser.of(ada).get("/ada-example-org").text


def ended(pipeline: PipelinePath, state: BuildState, message: str, branch: str = "main", failing: int = 1) -> None:
    """Build a commit to its end; ``failing`` of its jobs fail if the build does."""
    build = pipeline.build(message=message, branch=branch, pipeline_ir=steps(*(f"step{n}" for n in range(failing))))
    for number in range(failing):
        build.job(number).end(JobState.FAILED if state is BuildState.FAILED else JobState.PASSED)
    pipeline.account.world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, state)


def rows_of(shown: str, heading: str) -> str:
    """Return the section of a page with this heading."""
    return shown.partition(f'id="{heading}"')[2].partition("</section>")[0]


@pytest.mark.parametrize("page", ["/", "/ada-example-org"])
def test_first_is_what_is_broken_and_since_which_commit(ada: Account, pipeline: PipelinePath, page: str):
    whole = ada.pipeline("Whole")
    ended(whole, BuildState.FAILED, "Long mended")
    ended(whole, BuildState.PASSED, "Mended")
    ended(whole, BuildState.FAILED, "Of a branch", branch="other")
    ended(pipeline, BuildState.PASSED, "Was good")
    ended(pipeline, BuildState.FAILED, "Brought it", failing=5)
    ended(pipeline, BuildState.FAILED, "Was broken already")
    pipeline.build(message="Waits")
    shown = Browser.of(ada).get(page).text
    broken, running = rows_of(shown, "broken"), rows_of(shown, "running")
    assert broken.count("<li>") == 1
    assert '#2 <span class="title">Brought it</span>' in broken
    assert "make step0, make step1, make step2 and 2 more" in broken
    assert "</span> Ada</span>" in broken
    assert "Waits" in running
    assert "host is full (4 of 4)" in running


def test_home_says_that_nothing_is_broken_or_runs(ada: Account, pipeline: PipelinePath):
    for message in ("First", "Second"):
        ended(pipeline, BuildState.PASSED, message)
    shown = Browser.of(ada).get("/").text
    assert "The last build of each default branch passed." in rows_of(shown, "broken")
    assert "Nothing runs or waits." in rows_of(shown, "running")
    assert '#2 <span class="title">Second</span>' in shown
    assert '<span class="title">First</span>' not in shown


def test_pipelines_of_a_repository_are_together(ada: Account, pipeline: PipelinePath):
    for name in ("Unit", "Deploy"):
        ada.pipeline(name, repo_name="acme/shop")
    ada.client.simulate_patch(pipeline.path, json={"repo_name": "acme/docs"})
    _, docs, shop = Browser.of(ada).get("/ada-example-org").text.split('<ul class="board standing')
    assert ("/pipelines/demo" in docs, "acme/docs" in docs) == (True, True)
    assert docs.endswith("<h3>acme/shop</h3>")
    assert shop.index("/pipelines/deploy") < shop.index("/pipelines/unit")


def test_a_favourite_is_first_for_the_one_who_chose_it(ada: Account, bob: Account, pipeline: PipelinePath):
    ada.pipeline("Atlas")
    bob.join(ada, Role.MEMBER)
    browser, page = Browser.of(ada), "/ada-example-org"
    form = "ada-example-org/pipelines/demo"
    chosen = browser.send(page, f"{form}/favourite")
    assert (chosen.status_code, chosen.headers["location"].endswith("/ada-example-org")) == (303, True)
    first, second = "/pipelines/demo", "/pipelines/atlas"
    for who, order in ((browser, (first, second)), (Browser.of(bob), (second, first))):
        shown = rows_of(who.get(page).text, "pipelines-heading")
        assert shown.index(order[0]) < shown.index(order[1])
    assert "<h3>Favourites</h3>" in browser.get("/").text
    browser.send(page, f"{form}/no-favourite")
    assert "Favourites" not in browser.get(page).text


def test_home_has_the_names_of_pipelines(ada: Account, pipeline: PipelinePath):
    ada.client.simulate_patch(pipeline.path, json={"name": "Web shop"})
    pipeline.build(message="Waits")
    assert '>Web shop #1 <span class="title">Waits</span></a>' in rows_of(Browser.of(ada).get("/").text, "running")


def test_a_refused_request_is_in_no_figure_of_a_pipeline(world: World, ada: Account, pipeline: PipelinePath):
    build = pipeline.build(message="Good")
    world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.PASSED)
    for _ in range(3):
        assert pipeline.post(pipeline_ir="{").status_code == 422
    home = Browser.of(ada).get("/").text
    assert '#1 <span class="title">Good</span>' in home
    assert "The last build of each default branch passed." in home
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
    shown = rows_of(browser.get("/ada-example-org?q=WE").text, "pipelines-heading")
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


def test_insights_are_of_a_branch_and_exported(ada: Account, pipeline: PipelinePath):
    """Of a pipeline, and of all of the organization; what strangers name is no formula."""
    whole = ada.pipeline("Whole")
    for of, state, branch in (
        (pipeline, BuildState.PASSED, "main"),
        (pipeline, BuildState.FAILED, "=1+1"),
        (whole, BuildState.FAILED, "main"),
    ):
        ended(of, state, "Change", branch=branch)
    browser, org = Browser.of(ada), "/ada-example-org"
    page = f"{org}/pipelines/demo"
    found = {
        query: re.search(r"(\d+) % of the builds", browser.get(f"{query}branch={branch}").text)[1]  # type: ignore[index]
        for query, branch in (
            (f"{page}?view=insights&", ""),
            (f"{page}?view=insights&of&", "main"),
            (f"{org}/insights?", ""),
            (f"{org}/insights?of&", "main"),
        )
    }
    assert list(found.values()) == ["50", "100", "33", "50"]
    files = [browser.get(path) for path in (f"{page}/insights.csv", f"{org}/insights.csv?branch=main")]
    assert {each.headers["Content-Type"] for each in files} == {"text/csv; charset=utf-8"}
    of_one, of_all = ([line.split(",")[:5] for line in each.text.splitlines()[1:]] for each in files)
    assert [(line[0], line[1], line[2], line[4]) for line in of_one] == [
        ("demo", "2", "'=1+1", "failed"),
        ("demo", "1", "main", "passed"),
    ]
    assert [(line[0], line[4]) for line in of_all] == [("demo", "passed"), ("whole", "failed")]
    assert Browser(ada.world).get(f"{org}/insights.csv").status_code == 303


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
