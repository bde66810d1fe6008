"""Workspaces that travel from job to job, while the disks do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storage import Build
from tests.actors.conftest import Host

pytestmark = pytest.mark.sandbox


def built(host: Host, **jobs: dict[str, Any]) -> Build:
    return host.finish(host.build(document(**jobs)))


def document(**jobs: dict[str, Any]) -> str:
    return json.dumps({"version": "1", "defaults": {"workspace": "shared"}, "jobs": jobs})


def lines(host: Host, build: Build, key: str) -> list[str]:
    return host.log(build, key).decode().splitlines()


def test_the_workspace_travels_and_the_disk_does_not(host: Host):
    make = "mkdir -m 750 d; echo one >d/f; chmod 640 d/f; ln -s d/f link; touch -d @7.5 d/f; chown 12:34 d/f"
    build = built(
        host,
        first={"run": f"{make}; echo x >/root/left"},
        second={
            "needs": "first",
            "run": "stat -c '%a %u:%g %.1Y' d d/f | tail -1; cat link; ls /root; rm link; echo two >new",
        },
        third={"needs": "second", "run": "ls; cat new"},
    )
    assert build.state == "passed", [host.log(build, each) for each in ("first", "second", "third")]
    assert lines(host, build, "second")[0].startswith('the workspace is as "first" left it, ')
    assert lines(host, build, "second")[1:] == ["640 12:34 7.5", "one"]
    assert lines(host, build, "third")[1:] == ["d", "new", "two"]


def test_a_chain_goes_on_behind_a_disk(host: Host):
    build = built(
        host,
        first={"run": "echo 1 >a"},
        second={"from": "first", "run": "echo 2 >b; echo here >/root/left"},
        third={"needs": "second", "run": "cat a b; ls /root"},
    )
    assert lines(host, build, "third")[1:] == ["1", "2"]


def test_after_a_failure_it_is_as_that_left_it(host: Host):
    build = built(
        host,
        first={"run": "echo 1 >a; exit 3"},
        second={"needs": "first", "run": "echo 2 >b"},
        report={"needs": "second", "when": {"status": "always"}, "run": "ls"},
    )
    assert [host.job(build, each).state for each in ("first", "second", "report")] == ["failed", "skipped", "passed"]
    assert lines(host, build, "report")[1:] == ["a"]


def test_a_failure_that_nobody_takes_over_keeps_nothing(host: Host):
    build = built(host, first={"run": "echo 1 >a; exit 3"}, second={"needs": "first", "run": "true"})
    assert host.storage.workspaces.find(build.uuid, host.job(build, "first").uuid) is None


def test_a_retry_makes_the_workspace_anew(host: Host):
    build = built(host, first={"run": "date +%N >a"}, second={"needs": "first", "run": "cat a; exit 1"})
    host.reaper().sweep()
    assert host.storage.workspaces.builds() == []
    before = lines(host, build, "second")[1]
    again = host.retry(build)
    host.engine.jobs_added(again.id)
    host.finish(build)
    assert lines(host, build, "second")[-1] not in {"", before}
    assert host.job(build, "second").exit_code == 1


def test_a_workspace_that_is_lost_fails_the_job(host: Host, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host.storage.workspaces, "find", lambda *_: None)
    build = built(host, first={"run": "true"}, second={"needs": "first", "run": "true"})
    job = host.job(build, "second")
    assert (job.error_code, job.error_message) == ("snapshot_failed", 'the step "first" left no workspace')


def test_a_changed_workspace_runs_a_cached_job(host: Host):
    def hit(first: str) -> bool:
        build = built(host, first={"run": first}, second={"needs": "first", "cache": True, "run": "echo made >/root/x"})
        assert build.state == "passed", host.log(build, "second")
        return host.job(build, "second").cache_hit

    assert [hit("echo 1 >a"), hit("echo 1 >a; touch a"), hit("echo 2 >a"), hit("echo 2 >a; chmod +x a")] == [
        False,
        True,
        False,
        False,
    ]
    assert hit("echo 2 >a; chmod +x a; mkdir .git; date +%N >.git/index")
    assert not hit("echo 2 >a; chmod +x a; ln -s a b")
