"""Files of jobs of connected repositories, at tags and commits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from actors.render.yaml_files import JobFiles
from actors.repositories.job_files import ConnectedJobFiles
from actors.settings import JobSettings, LiveSettings, PoolSettings
from actors.source_hosts import PlainGit
from storage import Storage
from tests.actors.conftest import settings_with
from tests.clock import ManualClock
from tests.git_repository import GitRepository
from tests.records import new_owner
from tests.state import new_storage

FILE = ".hm__jobs__test.yml"


class World:
    """An organization with a connected repository, and one that nobody connected."""

    def __init__(self, folder: Path) -> None:
        self.storage: Storage = new_storage(folder / "state", ManualClock())
        self.organization = new_owner(self.storage).organization
        self.shared, self.private = GitRepository(folder / "a", "ci"), GitRepository(folder / "b", "private")
        for each in (self.shared, self.private):
            each.commit("Begin", **{FILE: "run: first"})
            each.git("tag", "--annotate", "v1", "--message", "The first")
            self.first = each.git("rev-parse", "HEAD")
            each.commit("Go on", **{FILE: "run: second"})
            each.push("main", "v1")
        self.storage.repositories.connect(self.organization.id, str(self.shared.bare), "acme/ci", 86_400)
        live_settings = LiveSettings(settings_with(PoolSettings(), JobSettings()))
        self.files = JobFiles()
        connected = ConnectedJobFiles(self.storage, live_settings, {"git": PlainGit(self.storage)})
        self.files.come_from(connected.fetch)
        self.find = partial(self.files.find, self.organization.slug, strangers=False)

    def found(self, name: str) -> str:
        """Return the text of a file, or why there is none."""
        found = self.find([name])[name]
        return found.get("text") or found["refused"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_file_is_that_of_its_tag_or_commit(world: World):
    head = world.shared.git("rev-parse", "HEAD")
    of_first = world.shared.git("rev-parse", "HEAD~1")
    assert world.found("acme/ci//jobs/test.yml@v1") == "run: first"
    assert world.found(f"acme/ci//jobs/test.yml@{of_first}") == "run: first"
    assert world.found(f"ACME/ci//jobs/test.yml@{head}") == "run: second"
    assert world.found(f"{world.shared.bare}//jobs/test.yml@v1") == "run: first"


def test_what_is_not_there_is_told(world: World):
    assert world.found("acme/cj//jobs/test.yml@v1") == (
        'the organization has connected no repository "acme/cj": did you mean "acme/ci"?'
    )
    assert world.found("acme/ci//jobs/tets.yml@v1") == (
        'acme/ci at v1 has no file ".hm/jobs/tets.yml" of at most 256 KiB'
    )
    for pin in ("v2", "main", world.shared.git("rev-parse", "--short", "HEAD")):
        told = world.found(f"acme/ci//jobs/test.yml@{pin}")
        assert told.startswith(f'there is no tag "{pin}"')
        assert told.endswith("pin a tag or a whole commit")
    assert "git fetch failed" in world.found(f"acme/ci//jobs/test.yml@{'0' * 40}")


def test_no_other_repository_can_be_read(world: World):
    another = new_owner(world.storage, "bob@example.org").organization
    world.storage.repositories.connect(another.id, str(world.private.bare), "acme/private", 86_400)
    for name in ("acme/private", str(world.private.bare), f"file://{world.private.bare}", "--upload-pack=x", "/etc"):
        assert world.found(f"{name}//jobs/test.yml@v1").startswith("the organization has connected no repository")
    of_theirs = world.files.find(another.slug, ["acme/private//jobs/test.yml@v1"], strangers=False)
    assert of_theirs["acme/private//jobs/test.yml@v1"]["text"] == "run: first"


def test_a_fork_that_nobody_approved_gets_no_file(world: World):
    name = "acme/ci//jobs/test.yml@v1"
    found = world.files.find(world.organization.slug, [name], strangers=True)
    assert "once a member has approved its build" in found[name]["refused"]
    assert "text" not in found[name]


def test_large_files_and_many_pins_are_refused(world: World):
    world.shared.commit("Grow", **{FILE: "x" * (256 * 1024 + 1)})
    world.shared.git("tag", "large")
    world.shared.push("large")
    assert "has no file" in world.found("acme/ci//jobs/test.yml@large")
    many = [f"acme/ci//jobs/test.yml@v{each}" for each in range(11)]
    assert {each["refused"] for each in world.find(many).values()} == {
        "expected files of at most 10 tags and commits of other repositories"
    }
