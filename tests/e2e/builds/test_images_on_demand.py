"""A step names an image that the host lacks: the daemon pulls it from a real registry, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms import ImageStore
from actors.vms.host import IdMap
from tests.e2e.daemon import Client, Daemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.registry import Registry, StalledRegistry, entry, layer, registry, small_system, stalled, store_beside
from tests.waiting import until

PASSWORD = "hunter2-and-a-half"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as served:
        yield served


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("closed"), login=f"ada:{PASSWORD}") as closed:
        yield closed


@pytest.fixture(scope="module")
def slow(served: Registry) -> Iterator[StalledRegistry]:
    with stalled(served) as slow:
        yield slow


@pytest.fixture(scope="module")
def system(images_dir: Path) -> list[bytes]:
    idmap = IdMap.of_caller()
    return small_system(ImageStore(images_dir, idmap).path("debian:12"), idmap)


@pytest.fixture(scope="module")
def store(images_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with store_beside(images_dir, tmp_path_factory.mktemp("store") / "images") as folder:
        yield folder


@pytest.fixture(scope="module")
def settings(served: Registry, closed: Registry, slow: StalledRegistry, store: Path) -> dict[str, str]:
    return {
        "CI_DAEMON_IMAGES_DIR": str(store),
        "CI_DAEMON_IMAGES_ON_DEMAND": "true",
        "CI_DAEMON_IMAGES_REGISTRIES": f"{served.address},{closed.address},{slow.address}",
        "CI_DAEMON_POOL_PARKED": "0",
    }


def test_an_image_of_a_registry_is_pulled_once(
    daemon: Daemon, pipeline: Pipeline, served: Registry, system: list[bytes]
):
    image = served.add("team/tools:1", *system, layer(entry("etc/tools", "ours")), env={"TOOLS": "1"})
    build = pipeline.build(one('echo "$TOOLS $(cat /etc/tools)"', image=image))
    assert build.finish()["state"] == "passed"
    lines = build.log().splitlines()
    assert lines[0] == f'the image "{image}" is not on this host yet: it is pulled first'
    assert lines[-2:] == [f'the image "{image}" is here', "1 ours"]
    again = pipeline.build(one("echo ran", image=image))
    assert again.finish()["state"] == "passed"
    assert again.log() == "ran\n"
    assert served.times_asked(image) == 1
    repository = image.rpartition(":")[0]
    pulled = f"{repository}@{served.digest(image)}"
    served.add("team/tools:1", *system, layer(entry("etc/tools", "another")))
    assert {each.jobs()["only"]["image_digest"] for each in (build, again)} == {pulled}
    child = pipeline.build(Graph().step("a", "true", image=image).step("b", "true", builds_in="a").ir())
    assert child.finish()["state"] == "passed"
    assert {each["image_digest"] for each in child.jobs().values()} == {pulled}
    listed = {each["name"]: each for each in daemon.json("image", "list")}
    assert listed[image]["source"] == f"pulled {image}, on demand"
    assert listed[image]["last_used_at"]
    assert listed[image]["bytes"] > 0


def test_a_private_image_is_for_the_organization_that_logs_in(
    daemon: Daemon, pipeline: Pipeline, closed: Registry, system: list[bytes], store: Path
):
    """Another one gets it neither from the registry nor from the store, nor does a removed login."""
    image = closed.add("team/private:1", *system, layer(entry("etc/ours", "ours")))
    client, other = pipeline.client, Client.create(daemon, "other@example.org")
    demo = other.pipeline()
    login = client.request("PUT", f"registry-logins/{closed.address}", json={"username": "ada", "password": PASSWORD})
    assert login.status_code == 200, login.text
    refused = f"{image} cannot be pulled: the registry requires a login"
    build = pipeline.build(one("cat /etc/ours", image=image))
    assert build.finish()["state"] == "passed", build.log()
    assert build.log().splitlines()[-1] == "ours"
    assert build.jobs()["only"]["image_digest"].startswith(f"{closed.address}/team/private@sha256:")
    for named in (one("cat /etc/ours", image=image), with_service(image)):
        foreign = demo.build(named)
        assert foreign.finish()["state"] == "failed"
        assert foreign.jobs()["only"]["error_message"].startswith(refused)
    served = pipeline.build(with_service(image))
    assert served.finish()["state"] != "passed", "it has no program, but it is there"
    assert "has no program of its own" in str(served.jobs()["only"]["error_message"])
    assert client.request("DELETE", f"registry-logins/{closed.address}").status_code == 204
    again = pipeline.build(one("cat /etc/ours", image=image))
    assert again.finish()["state"] == "failed"
    assert again.jobs()["only"]["error_message"].startswith(refused)
    assert PASSWORD not in daemon.log
    assert not [each for each in (*daemon.state.rglob("*"), *store.glob("*")) if each.is_file() and _has_password(each)]


def with_service(image: str) -> str:
    job = {"run": "cat /etc/ours", "image": "debian:12", "services": {"db": {"image": image}}}
    return json.dumps({"version": "1", "jobs": {"only": job}})


def _has_password(file: Path) -> bool:
    return PASSWORD.encode() in file.read_bytes()


def test_a_daemon_killed_in_the_middle_of_a_pull_pulls_again(
    daemon: Daemon, pipeline: Pipeline, slow: StalledRegistry, system: list[bytes], store: Path
):
    image = slow.add("team/killed:1", *system)
    build = pipeline.build(one("echo ran", image=image))
    until(lambda: list(store.glob(".making*")), "the beginning of the pull")
    waits = build.jobs()["only"]
    assert waits["state"] == "scheduled"
    assert waits["pending_reason"].startswith(f'waiting for the image "{image}": ')
    (queued,) = daemon.json("queue")
    assert queued["reason"].startswith(f'waiting for the image "{image}"')
    daemon.kill()
    slow.released.set()
    daemon.start()
    assert build.finish()["state"] == "passed"
    assert build.log().endswith("ran\n")
    assert list(store.glob(".making*")) == []
