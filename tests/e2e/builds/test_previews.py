"""Previews of what jobs have built: asleep until somebody looks, each at a host of its own."""

from __future__ import annotations

import json
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.ports import reserved_port
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVE = (
    "python3 -c 'import http.server as server, socket; socket.getfqdn = str;"
    ' server.test(server.SimpleHTTPRequestHandler, bind="127.0.0.1")\''
)
"""A server of files that asks no name server for its own name."""


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, str]]:
    """The service is found at the same address after a restart."""
    with reserved_port() as port:
        yield {
            "CI_DAEMON_HTTP_LISTEN": f"127.0.0.1:{port}",
            "CI_DAEMON_POOL_PARKED": "0",
            "CI_DAEMON_POOL_MAX_VMS": "4",
            "CI_DAEMON_PREVIEWS_IDLE_SECONDS": "3600",
        }


@pytest.fixture(autouse=True)
def _no_vm_is_left(daemon: Daemon) -> Iterator[None]:
    yield
    daemon.end_vms()


class Visitor:
    """A browser that looks at a preview: it follows no redirects, and keeps cookies of the preview's host."""

    def __init__(self, daemon: Daemon, url: str) -> None:
        self._at = urlsplit(daemon.url)
        self.host = urlsplit(url).netloc
        self.cookies: dict[str, str] = {}

    def get(self, path: str = "/", method: str = "GET", **options: Any) -> httpx.Response:
        """Ask for a path of the preview."""
        headers = {"Host": self.host, "Accept": "text/html", **options.pop("headers", {})}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answered = httpx.request(method, f"http://{self._at.netloc}{path}", headers=headers, timeout=60, **options)
        for each in answered.headers.get_list("set-cookie"):
            self.cookies |= {name: morsel.value for name, morsel in SimpleCookie(each).items()}
        return answered

    def awake(self, path: str = "/") -> httpx.Response:
        """Ask until the preview is awake, as its page does."""

        def look() -> httpx.Response | None:
            answered = self.get(path)
            return None if answered.headers.get("refresh") else answered

        return until(look, "a preview that is awake")

    def enter(self, client: Client, build: Build, preview: str) -> httpx.Response:
        """Enter by a link that the API gives to a member."""
        answered = client.request("POST", f"{build.path}/previews/{preview}/entries")
        assert answered.status_code == 200, answered.text
        place = urlsplit(answered.json()["url"])
        assert place.netloc == self.host
        return self.get(f"{place.path}?{place.query}" if place.query else place.path)


def previewed(pipeline: Pipeline, run: str, serve: str = SERVE, **preview: Any) -> Build:
    """Return a build that has passed, whose only job has a preview."""
    job = {"run": run, "preview": {"port": 8000, "run": serve, **preview}}
    build = pipeline.build(json.dumps({"version": "1", "jobs": {"site": job}}))
    assert build.finish()["state"] == "passed"
    return build


def preview_of(client: Client, build: Build) -> Any:
    (preview,) = client.get(f"{build.path}/previews")["data"]
    return preview


def test_a_preview_answers_sleeps_wakes_and_goes(daemon: Daemon, pipeline: Pipeline, client: Client):
    """Its disk is as the job left it each time, also after a crash; each time awake is debited."""
    serve = f"cat count >>shown; echo $PORT >>shown; {SERVE}"
    build = previewed(pipeline, "echo one >count; echo '<h1>Hello</h1>' >index.html", serve)
    preview = preview_of(client, build)
    assert (preview["state"], preview["for_everyone"], preview["failure"]) == ("asleep", False, None)
    assert preview["url"] in build.log("site")
    assert daemon.vms() == []
    visitor = Visitor(daemon, preview["url"])
    assert visitor.enter(client, build, preview["id"]).headers["location"] == "/"
    answered = visitor.awake()
    assert (answered.status_code, answered.text) == (200, "<h1>Hello</h1>\n"), answered.text
    assert answered.headers["cache-control"] == "private, no-cache"
    assert visitor.get("/shown").text == "one\n8000\n"
    assert preview_of(client, build)["state"] == "awake"
    assert len(daemon.vms()) == 1
    daemon.kill()
    daemon.start()
    assert visitor.awake("/shown").text == "one\n8000\n"
    daemon.stop()
    assert daemon.vms() == []
    daemon.start()
    assert preview_of(client, build)["state"] == "asleep"
    assert visitor.awake().text == "<h1>Hello</h1>\n"
    assert client.request("DELETE", f"{build.path}/previews/{preview['id']}").status_code == 204
    assert visitor.get().status_code == 404
    ended = preview_of(client, build)
    assert (ended["state"], ended["why_ended"]) == ("gone", "a member ended it")
    daemon.wait_until_idle()
    entries = client.get(f"/api/v0/billing/transactions/{client.org}")["data"]
    assert [each["description"] for each in entries].count("demo #1 site, preview") == 3
    assert daemon.command("ledger", "verify").returncode == 0
