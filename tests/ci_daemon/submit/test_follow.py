"""A build that is followed."""

from __future__ import annotations

from contextlib import closing

from api.doors.local import LocalDoor, service_elsewhere
from ci_daemon.command.builds.build_files import BuildFiles
from ci_daemon.submit import Follower
from ci_daemon.submit.events import BuildUpdated, FollowStarted, JobUpdated
from storage import NewBuild, Storage, SystemClock
from tests.records import new_job, new_pipeline


def test_a_build_that_waits_says_why(storage: Storage):
    new = NewBuild("eve:main", "c0ffee", untrusted_origin="pull/1/7", approval_reason="eve is not a member")
    build = storage.builds.create(new_pipeline(storage), new, [new_job("lint")])
    door = LocalDoor(service_elsewhere(storage, SystemClock()), "root", "a test")
    with closing(Follower(BuildFiles(door, storage, build), poll_seconds=0.01).events()) as events:
        assert isinstance(next(events), FollowStarted)
        assert isinstance(next(events), JobUpdated)
        waiting = next(events)
        assert isinstance(waiting, BuildUpdated)
        assert waiting.build.pending_reason == "waiting for approval: eve is not a member"
