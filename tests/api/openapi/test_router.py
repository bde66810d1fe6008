"""The routes of apps that share a tree of paths."""

from __future__ import annotations

from typing import Any

import falcon
import pytest
from falcon import testing

from api.openapi.router import Router


class Greeting:
    def __init__(self, word: str) -> None:
        self._word = word

    def on_get(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        resp.text = f"{self._word} {name}"

    def on_post_loud(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        resp.text = f"{self._word.upper()} {name}"


def greeting(word: str) -> testing.TestClient:
    app: falcon.App[Any, Any] = falcon.App(router=Router())
    app.add_route("/people/{name}", Greeting(word))
    app.add_route("/people/{name}/loud", Greeting(word), suffix="loud")
    return testing.TestClient(app)


def test_apps_with_the_same_paths_have_resources_of_their_own():
    hello, bye = greeting("hello"), greeting("bye")
    assert [client.simulate_get("/people/ada").text for client in (hello, bye, hello)] == [
        "hello ada",
        "bye ada",
        "hello ada",
    ]
    assert bye.simulate_post("/people/bob/loud").text == "BYE bob"


def test_a_method_without_a_responder_is_refused():
    answered = greeting("hello").simulate_delete("/people/ada/loud")
    assert (answered.status_code, answered.headers["Allow"]) == (405, "POST, OPTIONS")


@pytest.mark.parametrize("path", ["/", "/people", "/people/ada/quiet", "/people/{name}/loud/"])
def test_other_paths_are_not_found(path: str):
    assert greeting("hello").simulate_get(path).status_code == 404


class Roll:
    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        resp.text = "ada, bob"


def test_a_path_without_fields_is_found_before_a_field():
    client = greeting("hello")
    client.app.add_route("/people/all", Roll())
    assert [client.simulate_get(path).text for path in ("/people/all", "/people/ada")] == ["ada, bob", "hello ada"]


def test_a_path_without_fields_does_not_wait_for_the_tree(monkeypatch: pytest.MonkeyPatch):
    client = greeting("hello")
    client.app.add_route("/people", Roll())
    monkeypatch.delattr(Router, "_tree")
    assert client.simulate_get("/people").text == "ada, bob"


def test_a_template_as_a_path_is_a_path_like_others():
    assert greeting("hello").simulate_get("/people/{name}").text == "hello {name}"


def test_a_path_that_is_added_later_is_found():
    client = greeting("hello")
    assert client.simulate_get("/pets/ada").status_code == 404
    client.app.add_route("/pets/{name}", Greeting("miaow"))
    assert client.simulate_get("/pets/ada").text == "miaow ada"


def test_pages_are_routed_at_the_first_request_for_one():
    made: list[Router] = []

    def pages() -> Router:
        made.append(Router())
        made[0].add_route("/{page}", Greeting("page"))
        return made[0]

    app: falcon.App[Any, Any] = falcon.App(router=Router(pages))
    app.add_route("/people/{name}", Greeting("hello"))
    client = testing.TestClient(app)
    assert (client.simulate_get("/people/ada").text, made) == ("hello ada", [])
    assert client.simulate_get("/people/ada/quiet").status_code == 404
    assert len(made) == 1
