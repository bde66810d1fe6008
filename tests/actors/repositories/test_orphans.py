"""Mirrors of repositories that are not connected any more."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from actors.repositories.fetching.git import GitError
from actors.source_hosts import PlainGit
from storage import Repository
from tests.actors.repositories.world import World


def test_a_mirror_goes_with_its_repository_but_not_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    world = World(tmp_path)
    mirror = tmp_path / "mirrors" / world.repository.uuid
    left = tmp_path / "mirrors" / "of-an-earlier-version"

    def disconnected(host: PlainGit, repository: Repository) -> None:
        world.storage.repositories.remove(repository)
        world.pushes.remove_orphans()
        raise GitError(f"the mirror is {'in use' if mirror.exists() else 'gone'}")

    with closing(world.storage):
        world.check()
        left.mkdir()
        world.pushes.remove_orphans()
        assert (mirror.exists(), left.exists()) == (True, False)
        monkeypatch.setattr(PlainGit, "credential", disconnected)
        with pytest.raises(GitError, match="in use"):
            world.pushes.check(world.repository)
        world.pushes.remove_orphans()
        assert not mirror.exists()
