"""The page of search, and its operation."""

from __future__ import annotations

from tests.api.console.browser import Browser, main_of
from tests.api.world import Account, PipelinePath, World


def test_what_is_found_leads_there(ada: Account, pipeline: PipelinePath):
    ada.client.simulate_patch(pipeline.path, json={"name": "Web shop"})
    pipeline.build(message="Mend the <b>parser</b>", branch="topic/login")
    browser = Browser.of(ada)
    for words in ("parser", "login", "%231", "ada"):
        shown = main_of(browser.get(f"/search?q={words}"))
        assert 'href="./ada-example-org/pipelines/demo/builds/1"' in shown, words
        assert "Mend the &lt;b&gt;parser" in shown
    assert 'href="./ada-example-org/pipelines/demo">Web shop</a>' in main_of(browser.get("/search?q=SHOP"))
    assert "ada@example.org" in main_of(browser.get("/search?q=ada"))
    assert "has all of these words" in main_of(browser.get("/search?q=%3Cb%3Enothing"))
    assert 'action="./search"' in browser.get("/").text


def test_a_stranger_finds_nothing_of_others(world: World, bob: Account, pipeline: PipelinePath):
    pipeline.build(message="Mend the parser")
    assert "has all of these words" in main_of(Browser.of(bob).get("/search?q=parser"))
    assert bob.client.simulate_get("/api/v0/search?q=parser").json == {"pipelines": [], "builds": [], "people": []}
    assert Browser(world).get("/search?q=parser").status_code in {302, 303, 401}


def test_programs_search_too(ada: Account, pipeline: PipelinePath):
    pipeline.build(message="Mend the parser", branch="topic/login", commit="abcdef1")
    found = ada.client.simulate_get("/api/v0/search?q=abcdef").json
    (build,) = found["builds"]
    assert (build["org"], build["pipeline_slug"], build["number"]) == ("ada-example-org", "demo", 1)
    assert (build["state"], build["branch"], build["commit"]) == ("scheduled", "topic/login", "abcdef1")
    assert ada.client.simulate_get("/api/v0/search?q=demo").json["pipelines"] == [
        {"org": "ada-example-org", "pipeline_slug": "demo", "name": "demo"}
    ]
