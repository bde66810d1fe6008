"""Images that jobs name and the host lacks, pulled from a real registry (engine.md, "Images")."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import pytest

from actors.vms import ImageSettings, ImageStore
from actors.vms.host import IdMap
from storage import Build, JobState
from tests.actors.conftest import Host, real_images, sandboxes
from tests.e2e.pipelines import Graph, one
from tests.registry import Registry, StalledRegistry, entry, layer, registry, small_system, stalled, store_beside
from tests.waiting import until

Hosts = Callable[..., Host]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as served:
        yield served


@pytest.fixture
def slow(served: Registry) -> Iterator[StalledRegistry]:
    with stalled(served) as slow:
        yield slow


@pytest.fixture(scope="module")
def system(images_dir: Path) -> list[bytes]:
    return small_system(ImageStore(images_dir, IdMap.of_caller()).path("debian:12"), IdMap.of_caller())


@pytest.fixture
def host_of(tmp_path: Path, images_dir: Path, served: Registry) -> Iterator[Hosts]:
    """Start a host with only the default image, and with settings for images and the pool."""
    with store_beside(images_dir, tmp_path / "images") as folder, ExitStack() as opened:

        def make(images: ImageSettings | None = None, **pool: object) -> Host:
            settings = images or ImageSettings(registries=(served.address,))
            local = real_images(folder, settings)
            host = Host(tmp_path, sandboxes(tmp_path, local), local, **pool)
            opened.enter_context(closing(host)).engine.start()
            return host

        yield make


def pulling(host: Host, build: Build, line: str) -> None:
    """Wait until a build's job waits for a pull whose progress contains a line."""
    until(lambda: line in (host.engine.pending_reason(host.job(build)) or ""), line)


def unfinished(folder: Path) -> list[Path]:
    """Return the staging folders of the images that are being pulled."""
    return list((folder / "images").glob(".making*"))


def test_an_image_is_pulled_for_the_first_job_that_asks(host_of: Hosts, served: Registry, system: list[bytes]):
    host = host_of()
    image = served.add("tools:1", *system, layer(entry("etc/tools")), env={"TOOLS": "yes"})
    build = host.build(one('test -e /etc/tools && test "$TOOLS" = yes', image=image))
    assert host.finish(build).state == "passed"
    log = host.log(build).decode()
    assert f'the image "{image}" is not on this host yet: it is pulled first\n' in log
    assert f'the image "{image}" is here\n' in log
    assert host.storage.attempts.lost(host.job(build).id) == 0
    again = host.build(one("true", image=image))
    assert host.finish(again).state == "passed"
    assert host.log(again) == b""
    assert served.times_asked(image) == 1


def test_whoever_waits_for_an_image_holds_no_vm_and_others_go_on(
    host_of: Hosts, slow: StalledRegistry, system: list[bytes], tmp_path: Path
):
    host = host_of(ImageSettings(registries=(slow.address,)), max_vms=1)
    image = slow.add("stuck:1", *system)
    held = host.build(one("sleep 600"))
    until(host.storage.leases.live, "the only VM")
    build = host.build(one("true", image=image))
    pulling(host, build, "pulling")
    host.notes(build, b"pulling")
    job = host.job(build)
    assert job.state is JobState.SCHEDULED
    reason = host.engine.pending_reason(job)
    assert reason is not None
    assert reason.startswith(f'waiting for the image "{image}": pulling {image}')
    assert [lease.job_id for lease in host.storage.leases.live()] == [host.job(held).id]
    host.engine.cancel(held.id)
    assert host.finish(host.build(one("true"))).state == "passed"
    newcomer = host.build(one("true", image=image))
    host.notes(newcomer, b"is being pulled already: ")
    host.engine.cancel(build.id)
    assert host.finish(build, 5).state == "canceled"
    pulling(host, newcomer, "pulling")
    host.engine.cancel(newcomer.id)
    until(lambda: not unfinished(tmp_path), "the pull's end")
    assert host.images.store.names() == ["debian:12"]


def test_a_pull_is_one_for_all_jobs_builds_and_organizations(host_of: Hosts, served: Registry, system: list[bytes]):
    host = host_of()
    image = served.add("common:1", *system)
    graph = Graph()
    for number in range(5):
        graph.step(f"job-{number}", "true", image=image)
    builds = [host.build(graph.ir()), host.build(graph.ir(), host.other_pipeline())]
    assert [host.finish(build).state for build in builds] == ["passed", "passed"]
    assert served.times_asked(image) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{here}/none:1", "the registry has no such image"),
        ("127.0.0.1:1/base:1", "the registry 127.0.0.1:1 is not in images.registries"),
        ("ghcr.io/team/base:1", "add ghcr.io to images.registries or run `ci-daemon image pull ghcr.io/team/base:1`"),
        ("2130706433/base", "the registry docker.io is not in images.registries"),
        ("Team/Base", "is not a valid image reference"),
    ],
)
def test_an_image_that_cannot_be_pulled_fails_the_job(host_of: Hosts, served: Registry, name: str, message: str):
    host = host_of()
    build = host.build(one("true", image=name.format(here=served.address)))
    assert host.finish(build).state == "failed"
    job = host.job(build)
    assert (job.error_code, job.attempt) == ("image_not_found", 0)
    assert message in (job.error_message or "")


def test_a_soft_failure_forgives_an_image_that_cannot_be_had(host_of: Hosts, served: Registry):
    graph = Graph()
    graph.step("only", "true", image=f"{served.address}/none:2", runner_args={"soft_fail": True})
    host = host_of()
    assert host.finish(host.build(graph.ir())).state == "passed"


def test_a_failure_is_remembered_for_the_jobs_that_follow(host_of: Hosts, served: Registry):
    host = host_of()
    image = f"{served.address}/none:3"
    first = host.finish(host.build(one("true", image=image)))
    asked = served.times_asked(image)
    builds = [host.build(one("true", image=image)) for _ in range(20)]
    assert {host.finish(build).state for build in [first, *builds]} == {"failed"}
    assert served.times_asked(image) == asked


def test_nothing_is_pulled_where_that_is_switched_off(host_of: Hosts, served: Registry, system: list[bytes]):
    image = served.add("off:1", *system)
    host = host_of(ImageSettings(on_demand=False, registries=(served.address,)))
    build = host.build(one("true", image=image))
    assert host.finish(build).state == "failed"
    assert f'no image "{image}" on this host' in (host.job(build).error_message or "")
    assert served.times_asked(image) == 0


def test_a_pull_of_an_engine_that_ended_is_done_by_the_next(
    host_of: Hosts, slow: StalledRegistry, system: list[bytes], tmp_path: Path
):
    host = host_of(ImageSettings(registries=(slow.address,)))
    build = host.build(one("true", image=slow.add("restarted:1", *system)))
    pulling(host, build, "pulling")
    host.engine.stop()
    assert unfinished(tmp_path) == []
    slow.released.set()
    host.restart()
    assert host.finish(build).state == "passed"


def test_that_the_default_stands_in_is_said_once_in_a_build(host_of: Hosts):
    host = host_of(max_vms=2)
    graph = Graph()
    for number in range(4):
        graph.step(f"job-{number}", "true", image="ubuntu:24.04")
    build = host.build(graph.ir())
    assert host.finish(build).state == "passed"
    logs = [host.log(build, f"job-{number}") for number in range(4)]
    notice = b'the image "ubuntu:24.04" is not on this host: "debian:12" stands in for it in this build\n'
    assert sorted(logs) == [b"", b"", b"", notice]


def test_images_unused_for_long_go_unless_disks_need_them(
    host_of: Hosts, served: Registry, system: list[bytes], tmp_path: Path
):
    host = host_of(ImageSettings(registries=(served.address,), unused_days=30))
    seldom, cached = served.add("seldom:1", *system), served.add("cached:1", *system)
    graph = Graph()
    graph.step("only", "true", image=cached, cache={"policy": "on_change", "key": "k"})
    for build in (host.build(one("true", image=seldom)), host.build(graph.ir())):
        assert host.finish(build).state == "passed"
    until(lambda: not host.storage.leases.live(), "the leases' end")
    host.reaper().expire()
    assert set(host.images.store.names()) == {"debian:12", seldom, cached}
    past = time.time() - timedelta(days=31).total_seconds()
    for used in (tmp_path / "images").glob("*/used"):
        os.utime(used, (past, past))
    host.reaper().expire()
    assert set(host.images.store.names()) == {"debian:12", cached}
    assert host.finish(host.build(one("true", image=seldom))).state == "passed"
    assert served.times_asked(seldom) == 2


def test_service_of_a_pulled_image_runs_as_the_image_says(
    host_of: Hosts, served: Registry, system: list[bytes]
) -> None:
    """Its entry point, arguments, user, folder and variables are those of the registry's configuration."""
    host = host_of()
    program = entry("opt/serve", '#!/bin/sh\necho up "$@" $NOTE $(id -u) $PWD\nexec sleep 1000\n')
    settings = {"Entrypoint": ["/opt/serve"], "Cmd": ["a b", "c"], "User": "42:43", "WorkingDir": "/srv/data"}
    image = served.add("serving:1", *system, layer(program), env={"NOTE": "noted"}, **settings)
    services = {"db": {"image": image, "ready": {"log": "up"}}}
    build = host.build(json.dumps({"version": "1", "jobs": {"only": {"run": "true", "services": services}}}))
    assert host.finish(build).state == "passed", host.job(build).error_message
    log = host.storage.logs.service_reader(build.uuid, host.job(build).uuid, "db")
    assert log.read(0, log.size()) == b"up a b c noted 42 /srv/data\n"


def test_images_of_services_are_pulled_before_a_vm_is_held(
    host_of: Hosts, slow: StalledRegistry, system: list[bytes]
) -> None:
    """The job waits outside the queue, also for the image of the other service, and says for which."""
    host = host_of(ImageSettings(registries=(slow.address,)))
    first, second = (slow.add(f"{name}:1", *system, Cmd=["sleep", "1000"]) for name in ("one", "two"))
    services = {"one": {"image": first}, "two": {"image": second}}
    document = {"version": "1", "jobs": {"only": {"run": "true", "services": services}}}
    build = host.build(json.dumps(document))
    pulling(host, build, f'the image "{first}" is not on this host yet')
    assert host.job(build).state is JobState.SCHEDULED
    assert list(host.storage.leases.live()) == []
    slow.released.set()
    assert host.finish(build).state == "passed", host.job(build).error_message
    log = host.log(build).decode()
    for image in (first, second):
        assert f'the image "{image}" is not on this host yet: it is pulled first\n' in log
        assert f'the image "{image}" is here\n' in log


def test_service_is_ready_at_the_port_of_its_image(host_of: Hosts, served: Registry, system: list[bytes]) -> None:
    """The job says nothing else; and it is asked to end by the image's signal."""
    host = host_of()
    late = """#!/usr/bin/perl
        $SIG{USR1} = sub { print "asked to end\\n"; exit 3 };
        select undef, undef, undef, 0.3;
        socket S, 2, 1, 0 and bind S, pack "Sna4x8", 2, 4001, "\\x7f\\0\\0\\1" and listen S, 5 or die;
        sleep 1000 while 1;
    """
    settings = {"Cmd": ["/opt/late"], "StopSignal": "SIGUSR1", "ExposedPorts": {"4001/tcp": {}}}
    image = served.add("late:1", *system, layer(entry("opt/late", late)), **settings)
    job = {"run": "exec 3<>/dev/tcp/db/4001", "shell": ["bash", "-c"], "services": {"db": {"image": image}}}
    build = host.build(json.dumps({"version": "1", "jobs": {"only": job}}))
    assert host.finish(build).state == "passed", host.job(build).error_message
    log = host.storage.logs.service_reader(build.uuid, host.job(build).uuid, "db")
    assert log.read(0, log.size()) == b"asked to end\n"


def test_image_of_a_running_service_stays(
    host_of: Hosts, served: Registry, system: list[bytes], tmp_path: Path
) -> None:
    """Nobody used it for long, as far as the store knows; it goes once the job has ended."""
    host = host_of(ImageSettings(registries=(served.address,), unused_days=30))
    image = served.add("beside:1", *system, Cmd=["sleep", "1000"])
    document = {"version": "1", "jobs": {"only": {"run": "sleep 600", "services": {"db": {"image": image}}}}}
    build = host.build(json.dumps(document))
    until(lambda: host.job(build).started_at is not None, "the start")

    def expire() -> list[str]:
        past = time.time() - timedelta(days=31).total_seconds()
        for used in (tmp_path / "images").glob("*/used"):
            os.utime(used, (past, past))
        host.reaper().expire()
        return sorted(host.images.store.names())

    assert expire() == sorted(["debian:12", image])
    host.engine.cancel(build.id)
    host.finish(build)
    until(lambda: not host.storage.leases.live(), "the lease's end")
    assert "debian:12" in expire()
    until(lambda: expire() == ["debian:12"], "the end of the image")
