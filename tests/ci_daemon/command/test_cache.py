from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage import NewBuild, NewCacheEntry, SystemClock
from tests.ci_daemon.conftest import Run
from tests.records import new_job, new_pipeline
from tests.state import new_storage

MIB = 2**20


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with a chain of two cached disks, and one disk of another organization."""
    storage = new_storage(tmp_path / "state", SystemClock())
    for name, keys in (("Acme", ("base", "deps")), ("Other", ("base",))):
        pipeline = new_pipeline(storage, name, email=f"{name}@example.org")
        below = None
        for key in keys:
            new = new_job(key, cache_policy="forever", cache_key=key)
            build = storage.builds.create(pipeline, NewBuild("main", "c0ffee"), [new])
            disk = f"{name}-{key}"
            storage.snapshots.add(disk, storage.jobs.of_build(build.id)[0].id, "sandbox", base=below)
            storage.snapshots.measured(disk, 3 * MIB)
            assert storage.cache.store(NewCacheEntry(f"name of {disk}", pipeline.id, key, "debian:12", disk))
            below = disk
    storage.close()
    return tmp_path / "state"


def test_cached_disks_are_listed_with_their_sizes(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("cache", "list", "--org", "acme") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:7] for line in lines[1:]] == [
        ["base", "acme", "web", "base", "1", "debian:12", "3"],
        ["deps", "acme", "web", "deps", "2", "debian:12", "3"],
    ]


def test_what_disks_share_counts_once(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("cache", "stats", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "entries": 3,
        "bytes": 9 * MIB,
        "max_bytes": 50 * 2**30,
        "hits": 0,
    }
    assert run("cache", "stats", "--org", "acme") == 0
    assert capsys.readouterr().out == "2 cached disks: 6 of 51200 MiB, 0 jobs saved\n"


def test_clearing_removes_only_matching_entries(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("cache", "clear", "--org", "other", "--pipeline", "web", "--json") == 0
    assert json.loads(capsys.readouterr().out)["entries"] == 1
    assert run("cache", "list", "--json") == 0
    assert {entry["organization"] for entry in json.loads(capsys.readouterr().out)} == {"acme"}
    assert run("cache", "clear") == 0
    assert capsys.readouterr().out.startswith("removed 2 cache entries")
    assert run("cache", "list") == 0
    assert capsys.readouterr().out == "nothing is cached\n"


@pytest.mark.parametrize("command", ["list", "stats", "clear"])
def test_a_missing_organization_is_reported(run: Run, capsys: pytest.CaptureFixture[str], command: str):
    assert run("cache", command, "--org", "nobody") == 1
    assert 'there is no organization "nobody"' in capsys.readouterr().err


def test_a_budget_below_zero_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("CI_DAEMON_CACHE_MAX_GB", "-1")
    assert run("cache", "stats") == 1
    assert "cache.max_gb: expected a number from 0 to 1000000, got -1" in capsys.readouterr().err


def test_an_image_of_cached_disks_stays_with_advice_to_free_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    image = tmp_path / "store" / "debian@12"
    (image / "tree").mkdir(parents=True)
    facts = {"name": "debian:12", "size": 1, "source": "made up", "created": "2026-01-02T03:04:05+00:00"}
    (image / "image.json").write_text(json.dumps(facts))
    monkeypatch.setenv("CI_DAEMON_IMAGES_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("CI_DAEMON_IMAGES_DEFAULT", "debian:13")
    assert run("image", "remove", "debian:12") == 1
    assert "3 cached disks (`ci-daemon cache clear` frees the cache)" in capsys.readouterr().err
    assert run("cache", "clear") == 0
    assert run("image", "remove", "debian:12") == 0
