"""Folders that jobs keep for later builds."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from actors.cleanup.retention import evict_folders
from actors.ir import IrSettings, load
from actors.settings import CacheSettings
from storage import Build, NewBuild, NewPipeline, SecretScope
from tests.actors.conftest import Host

pytestmark = pytest.mark.sandbox


def built(
    host: Host, run: str, keep: Any, *, branch: str = "main", origin: str | None = None, ref: str | None = None
) -> Build:
    """Build a job ``only`` that keeps folders."""
    ir = json.dumps({"version": "1", "jobs": {"only": {"run": run, "keep": keep}}})
    new = NewBuild(branch, "0" * 40, pipeline_ir=ir, untrusted_origin=origin, verified_ref=ref)
    build = host.storage.builds.create(host.pipeline, new, load(ir, IrSettings()).jobs)
    host.engine.jobs_added(build.id)
    return host.finish(build)


def lines(host: Host, build: Build) -> list[str]:
    return host.log(build).decode().splitlines()


def test_a_folder_is_laid_in_and_kept(host: Host):
    keep = ["~/.cache/pip", "node_modules/"]
    make = "mkdir -p ~/.cache/pip node_modules/.bin; echo one >~/.cache/pip/f; echo two >node_modules/.bin/g"
    first = built(host, f"{make}; chmod 750 node_modules/.bin/g; ln -s g node_modules/.bin/h", keep)
    assert first.state == "passed"
    assert lines(host, first)[:2] == ["~/.cache/pip: nothing is kept yet", "node_modules: nothing is kept yet"]
    assert [each.partition(", ")[0] for each in lines(host, first)[2:]] == ["~/.cache/pip: kept", "node_modules: kept"]

    show = "cat ~/.cache/pip/f node_modules/.bin/h; stat -c %a node_modules/.bin/g; ls -A"
    second = lines(host, built(host, show, keep))
    assert [each.rpartition(", ")[0] for each in second[:2]] == [
        "~/.cache/pip: laid in as only of demo #1 left it",
        "node_modules: laid in as only of demo #1 left it",
    ]
    assert second[2:] == ["one", "two", "750", "node_modules", "~/.cache/pip: unchanged", "node_modules: unchanged"]
    third = lines(host, built(host, "echo more >node_modules/new", keep))
    assert third[2] == "~/.cache/pip: unchanged"
    assert third[3].startswith("node_modules: kept, ")


def test_a_job_that_fails_keeps_nothing(host: Host):
    built(host, "mkdir d; echo x >d/f; exit 1", "d")
    assert host.storage.kept_folders.all() == []


def test_a_branch_falls_back_to_the_default_branch(host: Host):
    made = "cat d/f 2>/dev/null; mkdir -p d; echo {} >d/f"
    built(host, made.format("main"), "d")
    assert "main" in lines(host, built(host, made.format("side"), "d", branch="side"))
    assert "side" in lines(host, built(host, made.format("side"), "d", branch="side"))
    assert "main" in lines(host, built(host, made.format("main"), "d"))
    assert "main" in lines(host, built(host, "cat d/f", "d", branch="other"))


def test_a_fork_has_folders_of_its_own(host: Host):
    made = "cat d/f 2>/dev/null; mkdir -p d; echo {} >d/f"
    built(host, made.format("main"), "d")
    assert "main" not in lines(host, built(host, made.format("fork"), "d", origin="7"))
    assert "fork" in lines(host, built(host, made.format("fork"), "d", origin="7"))
    assert "fork" not in lines(host, built(host, made.format("other"), "d", origin="8"))
    assert "main" in lines(host, built(host, "cat d/f", "d"))


def test_a_limited_secret_keeps_folders_among_its_builds(host: Host):
    """A source that only says it is of main leaves nothing for the builds of main that have the secret."""
    host.storage.secrets.put(SecretScope(host.pipeline.organization_id), "TOKEN", "hush", {"branches": ["main"]})
    made, main = "cat d/f 2>/dev/null; mkdir -p d; echo {} >d/f", "refs/heads/main"
    built(host, made.format("theirs"), "d")
    assert "theirs" not in lines(host, built(host, made.format("main"), "d", ref=main))
    assert "theirs" in lines(host, built(host, made.format("theirs"), "d"))
    assert "main" in lines(host, built(host, "cat d/f", "d", ref=main))


def test_pipelines_share_a_folder_by_name(host: Host):
    built(host, "mkdir d e; echo shared >d/f; echo own >e/f", {"d": "deps", "e": ""})
    first = host.pipeline
    host.pipeline = host.storage.pipelines.create(
        first.organization_id, NewPipeline("second", "Second", "https://example.org/a/second.git", "main")
    )
    found = lines(host, built(host, "cat x/f; ls e", {"x": "deps", "e": None}))
    assert "shared" in found
    assert "own" not in found
    host.pipeline = host.other_pipeline()
    assert "x: nothing is kept yet" in lines(host, built(host, "true", {"x": "deps"}))


def test_what_is_there_already_stays(host: Host):
    built(host, "mkdir d; echo kept >d/f", "d")
    ir = {"base": {"run": "mkdir d; echo base >d/f"}, "only": {"from": "base", "run": "cat d/f", "keep": "d"}}
    build = host.finish(host.build(json.dumps({"version": "1", "jobs": ir})))
    assert lines(host, build)[:2] == ["d: what is kept is not laid in, as there is something already", "base"]


@pytest.mark.parametrize("link", ["/run", "/etc", "../etc", "/root"])
def test_a_link_out_of_its_place_is_not_kept(host: Host, link: str):
    build = built(host, f"ln -s {link} d", "d")
    assert build.state == "passed"
    assert host.storage.kept_folders.all() == []
    assert any("not kept" in each for each in lines(host, build))


def test_a_folder_that_is_too_large_is_not_kept(host: Host):
    host.settings = replace(host.settings, cache=replace(host.settings.cache, folder_gb=0.001))
    host.restart()
    build = built(host, "mkdir d; head -c 2000000 /dev/zero >d/f", "d")
    assert build.state == "passed"
    assert lines(host, build)[-1] == "d: not kept: it has more than 1,073,741 bytes (cache.folder_gb)"
    assert list((host.storage.directory / "kept").iterdir()) == []


def test_what_is_longest_unused_goes_first(host: Host):
    for name in ("a", "b"):
        built(host, f"mkdir {name}; head -c 100000 /dev/zero >{name}/f", name)
    built(host, "cat a/f >/dev/null", "a")
    small = CacheSettings(folders_gb=150_000 / 2**30)
    now = host.clock.now()
    evict_folders(host.storage, small, now)
    (left,) = host.storage.kept_folders.all()
    assert left.scope.endswith("/a")
    assert len(list((host.storage.directory / "kept").iterdir())) == 1
    evict_folders(host.storage, CacheSettings(), now + timedelta(days=31))
    assert host.storage.kept_folders.all() == []
    assert "a: nothing is kept yet" in lines(host, built(host, "true", "a"))


def test_a_kept_folder_is_no_part_of_a_cached_disks_name(host: Host):
    def hit(keep: str) -> bool:
        jobs = {"only": {"run": "mkdir -p d; date >d/f", "keep": keep, "cache": {}}}
        build = host.finish(host.build(json.dumps({"version": "1", "jobs": jobs})))
        return host.job(build).cache_hit

    assert [hit("d"), hit("d"), hit("e")] == [False, True, True]
