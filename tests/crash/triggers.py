"""Pushes that a hook reports, a schedule, and webhooks that tell of builds, beside posted builds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from storage import Build, NewNotification, NotificationKind, Storage, SystemClock
from tests.crash.documents import NIGHTLY, nightly
from tests.crash.output import Output
from tests.crash.scenarios import Scenario
from tests.e2e.daemon import Client, Daemon, Pipeline
from tests.git_repository import GitRepository
from tests.identity.local_server import LocalServer, Reply
from tests.state import run_sql
from tests.waiting import until

PUSHED = "acme-web-ci"
_KEY = "pushed"
_OUTPUT = Output()
_PIPELINE = f"""
import harmont as hm

@hm.pipeline("ci", triggers=[hm.push(branch="push-*")])
def ci():
    return hm.sh({_OUTPUT.command()!r}, label={_KEY!r})
"""


class Triggers:
    """A connected repository, a schedule, and an endpoint that is told of the builds that ended.

    Each push is to a branch of its own, so each makes exactly one build, by its hook's report or by the next look. A
    schedule that is due makes exactly one build. The endpoint gets one delivery for each build that ended, which may be
    sent again if the service is killed before it knows the answer.
    """

    def __init__(self, daemon: Daemon, client: Client, endpoint: LocalServer, folder: Path) -> None:
        self._endpoint = endpoint
        self._pushes: list[str] = []
        self._fires = 0
        self._told_of: set[int] = set()
        self.scenarios: dict[str, Scenario] = {}
        endpoint.answers["/hook"] = lambda _: Reply(b"ok")
        self._repository = GitRepository(folder)
        self._repository.commit("Begin", **{".hm__pipeline.py": _PIPELINE})
        self._repository.push("main")
        daemon.command("repo", "connect", str(self._repository.bare), "--org", client.org, "--poll", "1")
        until(lambda: daemon.json("repo", "list")[0]["checked_at"], "the first look")
        slug, scenario = client.pipeline(NIGHTLY).slug, nightly()
        self.scenarios[NIGHTLY] = scenario
        self._first = Pipeline(client, slug).build(scenario.ir(), message=NIGHTLY).finish()["id"]
        untold = "SELECT id FROM builds WHERE recorded_at IS NOT told_at"
        until(lambda: run_sql(daemon.state, untold) == [], "its end is told of, before the endpoint is there")
        self._schedule = daemon.json("schedule", "add", client.org, slug, "0 0 1 1 *", "--branch", "main")["id"]

    def push(self) -> None:
        """Push a commit to a new branch; its hook reports it if the service answers."""
        message = f"push {len(self._pushes)}"
        self._pushes.append(message)
        self.scenarios[message] = Scenario("push").step(_KEY, _OUTPUT)
        self._repository.commit(message, change=message)
        self._repository.push(f"HEAD:refs/heads/push-{len(self._pushes)}")

    def fire(self, storage: Storage) -> None:
        """Let the schedule be due, unless it still is or its last build runs, which would make none."""
        schedule = storage.schedules.by_uuid(self._schedule)
        assert schedule is not None
        assert schedule.last_error is None, schedule
        now = SystemClock().now()
        runs = any(build.pipeline_id == schedule.pipeline_id for build in storage.builds.unfinished())
        if schedule.next_at is not None and schedule.next_at > now and not runs:
            self._fires += 1
            storage.schedules.update(schedule.id, next_at=now - timedelta(minutes=1))

    def tell_of(self, storage: Storage, pipeline_id: int) -> None:
        """Tell the endpoint of each build of a pipeline that ends from now on."""
        new = NewNotification(NotificationKind.WEBHOOK, ("build.finished",), f"{self._endpoint.url}/hook")
        storage.notifications.create(pipeline_id, new)
        self._told_of.add(pipeline_id)

    def idle(self, builds: list[Build]) -> bool:
        """True once all triggers have their builds, and the last ends of all were told."""
        complete = len(_pushed(builds)) >= len(self._pushes) and len(_scheduled(builds)) >= self._fires
        told = self._told()
        return complete and all(build.state in told.get(_name(build), ()) for build in self._to_tell_of(builds))

    def check(self, builds: list[Build], ends: Mapping[int, set[datetime]]) -> None:
        """Check that each trigger made one build, and that one delivery told of each end of a build.

        ``ends`` are the times at which builds ended before they were retried, by the id of the build. Deliveries may
        leave out such ends, which are news no longer.
        """
        assert Counter(build.message or "" for build in _pushed(builds)) == Counter(self._pushes)
        assert len(_scheduled(builds)) == self._fires
        told, to_tell_of = self._told(), self._to_tell_of(builds)
        assert set(told) == {_name(build) for build in to_tell_of}
        for build in to_tell_of:
            states = told[_name(build)]
            most = len({build.finished_at, *ends.get(build.id, ())})
            assert len(states) <= most, f"{build.message} ended {most} times and was told of as {states}"
            assert states.count(build.state) == 1 if most == 1 else build.state in states, (build, states)

    def _told(self) -> dict[tuple[str, int], list[str]]:
        """Return of which states of which builds the endpoint got a delivery, however often each was sent."""
        deliveries = {each.headers["webhook-id"]: json.loads(each.body)["data"] for each in self._endpoint.seen}
        told: dict[tuple[str, int], list[str]] = {}
        for data in deliveries.values():
            told.setdefault((data["pipeline"], data["build"]["number"]), []).append(data["build"]["state"])
        return told

    def _to_tell_of(self, builds: list[Build]) -> list[Build]:
        """Return the builds of whose ends the endpoint is told: all but the first and pushes."""
        return [each for each in builds if each.pipeline_id in self._told_of and each.external_id != self._first]

    def summary(self) -> str:
        """Return the numbers of triggers and of what was told."""
        return f"{len(self._pushes)} pushes, {self._fires} times of a schedule, {len(self._endpoint.seen)} webhooks"


def _name(build: Build) -> tuple[str, int]:
    return build.pipeline_slug, build.number


def _pushed(builds: list[Build]) -> list[Build]:
    return [build for build in builds if build.pipeline_slug == PUSHED]


def _scheduled(builds: list[Build]) -> list[Build]:
    return [build for build in builds if build.source == "schedule"]
