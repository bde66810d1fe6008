"""The provider of a VM: that of the disk below it, else by what the owner of the host has chosen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from actors import JobSettings, PoolSettings
from actors.ir import IrSettings, load
from actors.repositories import RepositorySettings
from actors.scheduling.provider_choice import ProviderChoice, ProviderRules
from actors.settings import LiveSettings
from storage import NewBuild, Storage, SystemClock
from tests.actors.conftest import settings_with
from tests.e2e.pipelines import Graph
from tests.records import new_pipeline
from tests.state import new_storage

CHAIN = load(Graph().step("parent", "true").step("child", "true", builds_in="parent").ir(), IrSettings()).jobs


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with closing(new_storage(tmp_path / "state", SystemClock())) as storage:
        yield storage


@pytest.mark.parametrize(
    ("image", "organization", "from_fork", "chosen"),
    [
        ("debian:12", None, False, "host"),
        ("debian:12", "organization", False, "organization"),
        ("alpine", "organization", False, "image"),
        ("alpine", "organization", True, "fork"),
        ("debian:12", None, True, "fork"),
    ],
)
def test_the_narrowest_choice_counts_and_that_of_forks_first(
    image: str, organization: str | None, chosen: str, *, from_fork: bool
):
    rules = ProviderRules("host", "fork", {"alpine": "image"})
    assert rules.choose(image, organization, from_fork=from_fork) == chosen


def test_without_a_choice_for_forks_their_builds_are_like_others():
    rules = ProviderRules("host", None, {"alpine": "image"})
    assert rules.choose("alpine", "organization", from_fork=True) == "image"
    assert rules.choose("debian:12", "organization", from_fork=True) == "organization"


def test_choices_apply_from_the_next_vm_on(storage: Storage):
    settings = settings_with(PoolSettings(image_providers={"alpine": "qemu"}), JobSettings())
    live = LiveSettings(replace(settings, repositories=RepositorySettings(fork_provider="qemu")))
    choice, pipeline = ProviderChoice(storage, live), new_pipeline(storage)
    own = storage.builds.create(pipeline, NewBuild("main", "c"), CHAIN)
    fork = storage.builds.create(pipeline, NewBuild("eve:main", "c", from_fork=True), CHAIN)
    assert [choice.of_build(own.id, image) for image in ("debian:12", "alpine")] == ["sandbox", "qemu"]
    assert choice.of_build(fork.id, "debian:12") == "qemu"
    storage.organizations.configure(pipeline.organization_id, provider="qemu")
    assert choice.of_build(own.id, "debian:12") == "qemu"


def test_an_archive_is_rendered_where_its_build_would_run(storage: Storage):
    settings = settings_with(PoolSettings(provider="qemu"), JobSettings())
    live = LiveSettings(replace(settings, repositories=RepositorySettings(fork_provider="incus")))
    choice, pipeline = ProviderChoice(storage, live), new_pipeline(storage)
    slug = storage.builds.create(pipeline, NewBuild("main", "c"), CHAIN).organization_slug
    assert choice.of_archive(slug, "debian:12", from_fork=False) == "qemu"
    assert choice.of_archive(slug, "debian:12", from_fork=True) == "incus"
    storage.organizations.configure(pipeline.organization_id, provider="sandbox")
    assert choice.of_archive(slug, "debian:12", from_fork=False) == "sandbox"
    assert choice.of_archive(slug, "debian:12", from_fork=True) == "incus"
    assert choice.of_archive("nobody", "debian:12", from_fork=False) == "qemu"


def test_a_job_runs_where_the_disk_is_that_it_builds_in(storage: Storage):
    choice = ProviderChoice(storage, LiveSettings(settings_with(PoolSettings(), JobSettings())))
    build = storage.builds.create(new_pipeline(storage), NewBuild("main", "c"), CHAIN)
    parent, child = storage.jobs.of_build(build.id)
    assert choice.of_job(child.id, build.id, "debian:12") == "sandbox"
    storage.snapshots.add("left", parent.id, "qemu")
    assert choice.of_job(child.id, build.id, "debian:12") == "qemu"
    assert choice.of_job(parent.id, build.id, "debian:12") == "sandbox"
