"""The ingredients of a cached disk's name, as YAML says them: a change of one runs the job."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.builds.attempt.disk_cache import CacheNames
from tests.actors.conftest import Host, add_image
from tests.actors.ir.language.files import NOW, declared

BASE = """
env: {A: "1"}
jobs:
  below: {image: debian:12, cache: true, run: echo below}
  only:
    from: below
    env: {B: "1"}
    cpu: 2
    memory: 4GB
    disk: 20GB
    network: true
    cache: {files: [lock], days: 2, key: k}
    run: echo only
"""
CHANGES: dict[str, tuple[str, str]] = {
    "the command": ("run: echo only", "run: echo other"),
    "a variable of the job": ('B: "1"', 'B: "2"'),
    "a variable of the pipeline": ('A: "1"', 'A: "2"'),
    "the processors": ("cpu: 2", "cpu: 3"),
    "the memory": ("memory: 4GB", "memory: 5GB"),
    "the disk": ("disk: 20GB", "disk: 21GB"),
    "the network": ("network: true", "network: false"),
    "the key": ("key: k", "key: l"),
    "the parent's command": ("run: echo below", "run: echo other"),
    "the image": ("image: debian:12", "image: alpine:3"),
    "no days": ("days: 2, ", ""),
    "no files": ("files: [lock], ", ""),
}
SAME: dict[str, tuple[str, str]] = {
    "folders to keep": ("run: echo only", "keep: [node_modules]\n    run: echo only"),
    "the name": ("run: echo only", "name: Another\n    run: echo only"),
    "retries": ("run: echo only", "retry: 2\n    run: echo only"),
    "the time-out": ("run: echo only", "timeout: 7m\n    run: echo only"),
}


OF_SERVICE: dict[str, Any] = {"image": "debian:12", "env": {"A": "b"}, "ready": {"port": 5432}}
DECLARED: dict[str, dict[str, Any]] = {
    "nothing else": {},
    "shell": {"shell": ["sh", "-c"]},
    "folder": {"working_directory": "src"},
    "containers": {"containers": True},
    "secrets": {"secrets": ["TOKEN"]},
    "artifacts": {"artifacts": ["dist/*"]},
    "identity": {"identity": {"audience": "sts.example.com"}},
    "audience of the identity": {"identity": {"audience": "vault.example.com"}},
    "service": {"services": {"db": OF_SERVICE}},
    "host of a service": {"services": {"queue": OF_SERVICE}},
    "image of a service": {"services": {"db": OF_SERVICE | {"image": "alpine:3"}}},
    "variable of a service": {"services": {"db": OF_SERVICE | {"env": {"A": "c"}}}},
    "arguments of a service": {"services": {"db": OF_SERVICE | {"command": ["postgres", "-d"]}}},
    "command until which it is ready": {"services": {"db": OF_SERVICE | {"ready": {"command": "pg_isready"}}}},
    "port of a ready service": {"services": {"db": OF_SERVICE | {"ready": {"port": 5433}}}},
    "log of a ready service": {"services": {"db": OF_SERVICE | {"ready": {"log": "ready"}}}},
    "end of a service": {"services": {"db": OF_SERVICE | {"fails_job": True}}},
    "folder of a service": {"services": {"db": OF_SERVICE | {"files": {"/data": "/srv/data"}}}},
    "secrets of the job alone": {"services": {"db": OF_SERVICE}, "secrets": ["TOKEN"]},
    "secrets of a service": {"services": {"db": OF_SERVICE | {"secrets": ["TOKEN"]}}},
}
"""Keys with which a job may do something else, or fail where it passed."""


def test_a_job_that_says_one_of_these_has_another_disk(host: Host):
    add_image(host.images.store.path("debian:12").parent.parent, "alpine:3", {})
    names = CacheNames(host.storage, host.images)

    def name(keys: dict[str, Any]) -> str | None:
        job = {"run": "true", "image": "debian:12", "cache": True} | keys
        build = host.insert(json.dumps({"version": "1", "jobs": {"only": job}}))
        return names.of(build, host.job(build), provider="sandbox", image="debian:12", of_jobs={})

    alike: dict[str | None, list[str]] = {}
    for what, keys in DECLARED.items():
        alike.setdefault(name(keys), []).append(what)
    assert list(alike.values()) == [[what] for what in DECLARED]
    assert None not in alike
    later = OF_SERVICE | {"ready": {"port": 5432, "timeout": "5m"}}
    assert name({"services": {"db": later}}) == name(DECLARED["service"])


def hit(host: Host, text: str = BASE, files: dict[str, str] | None = None, now: float = NOW) -> bool:
    """Run a build of a file that passes; tell whether its job ``only`` was a hit."""
    found = declared(text, files or {"lock": "1"}, now)
    build = host.finish(host.build(json.dumps(found["definition"])))
    assert build.state == "passed"
    return host.job(build).cache_hit


@pytest.mark.parametrize("changed", CHANGES)
def test_a_job_with_another_one_of_these_runs(host: Host, changed: str):
    add_image(host.images.store.path("debian:12").parent.parent, "alpine:3", {})
    before, after = CHANGES[changed]
    assert BASE.count(before) == 1
    assert not hit(host)
    assert not hit(host, BASE.replace(before, after))
    assert hit(host)
    assert hit(host, BASE.replace(before, after))


@pytest.mark.parametrize("same", SAME)
def test_a_job_with_another_one_of_these_hits(host: Host, same: str):
    assert not hit(host)
    assert hit(host, BASE.replace(*SAME[same]))


@pytest.mark.parametrize("changed", [{"files": {"lock": "2"}}, {"now": NOW + 2 * 86400}], ids=["files", "days"])
def test_the_content_of_files_and_the_days_count(host: Host, changed: dict[str, Any]):
    assert not hit(host)
    assert not hit(host, **changed)
    assert hit(host)
    assert hit(host, files={"lock": "1", "other": "3"})


def test_the_log_of_a_hit_says_whose_disk_it_is_and_why(host: Host):
    hit(host)
    build = host.finish(host.build(json.dumps(declared(BASE, {"lock": "1"})["definition"])))
    assert host.log(build) == (
        b'cache hit: nothing is run, the disk that "only" left in build 1 is this job\'s: its command, variables, '
        b"image, size and all else that can change it are the same\n"
    )
