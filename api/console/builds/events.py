"""``…/builds/{number}/live``: the changes of a build for its open pages."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING

from api.console.builds.live import LiveBuild, LiveBuilds
from api.console.builds.states import view_of
from api.http.slots import LogReader, RequestWait, StreamBody

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager

    import falcon

    from api.console.builds.states import BuildView, JobView
    from api.console.site import Site
    from api.http.slots import StreamSlots
    from api.middleware.client_addresses import ClientAddresses
    from storage import Build

_HEARTBEAT_SECONDS = 15.0
_TAG = re.compile(r"[0-9a-f]{16}")
_RETRY = b"retry: 3000\n\n"
_BEGIN = b"event: begin\ndata: \n\n"
_AGAIN = b"event: again\ndata: \n\n"
_RESTARTING = b"event: restarting\ndata: \nretry: 1000\n\n"
_END = b"event: end\ndata: \n\n"
_HEARTBEAT = b": still here\n\n"
_ROOT = "./../../../../"
"""The relative path from a build's page to the root, for links in the page's fragments."""


class BuildEvents:
    """Sends what changes in a build until its end.

    Each stream holds a thread and a stream slot. Without a free slot it ends after the first event, and the browser
    asks again in some seconds. With the parameter ``once`` it ends then, too: a page sends that if it gets nothing of a
    stream, as a proxy may keep an answer until it is whole.
    """

    def __init__(self, site: Site, slots: StreamSlots, addresses: ClientAddresses) -> None:
        self._site = site
        self._slots = slots
        self._addresses = addresses
        self._live = LiveBuilds()

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Follow a build, from the moment that the page knows."""
        build = self._site.access.readable_build(req, org, pipeline, number)
        caller = req.context.get("caller")
        public = caller is None or not self._site.access.is_member(caller, build.organization_id)
        reader = LogReader(self._addresses.network(req) if caller is None else caller.user.uuid, public=public)
        given = req.get_header("Last-Event-ID") or req.get_param("seen") or ""
        seen = given if _TAG.fullmatch(given) else ""
        resp.content_type = "text/event-stream; charset=utf-8"
        resp.cache_control = ["no-store"]
        resp.set_header("X-Accel-Buffering", "no")
        slot = None if req.get_param("once") == "yes" else self._slots.acquire_for_reader(reader)
        if slot is None:
            with self._watch(build) as live:
                now = live.latest(time.monotonic())
                event = live.event(seen, now) if now.tag != seen else b""
            resp.data = _RETRY + event + (_END if now.view.build.state.terminal else _AGAIN)
            return
        waiting = RequestWait.of(req, self._site.clock, self._slots)
        resp.stream = StreamBody(self._events(build, seen, waiting), slot)

    def _events(self, build: Build, seen: str, waiting: RequestWait) -> Generator[bytes]:
        """Yield the events. Runs, and waits, in the request's thread."""
        clock = self._site.clock
        with self._site.engine.watch(build.uuid) as watch, self._watch(build) as live:
            yield _RETRY + _BEGIN
            while True:
                now = live.latest(time.monotonic())
                self._site.storage.await_disk()
                if now.tag != seen:
                    yield live.event(seen, now)
                    seen = now.tag
                if now.view.build.state.terminal:
                    yield _END
                    return
                if not waiting.wait(watch, clock.monotonic() + _HEARTBEAT_SECONDS):
                    if waiting.over:
                        yield _RESTARTING
                        return
                    yield _HEARTBEAT

    def _watch(self, build: Build) -> AbstractContextManager[LiveBuild]:
        take = partial(view_of, self._site.storage, self._site.engine, build, self._site.amount)
        return self._live.watch(build.id, lambda: LiveBuild(take, self._write))

    def _write(self, view: BuildView, changed: tuple[JobView, ...]) -> str:
        return self._site.pages.render("builds/changes", root=_ROOT, view=view, changed=changed)
