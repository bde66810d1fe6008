"""Mirrors of repositories that are not connected any more."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from actors.repositories.fetching.remote import GitError
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


def test_what_a_killed_process_left_in_a_mirror_goes(tmp_path: Path):
    world = World(tmp_path)
    mirror = tmp_path / "mirrors" / world.repository.uuid
    with closing(world.storage):
        world.check()
        whole = _files(mirror)
        for folder in (mirror, mirror / "submodules" / "ab"):
            for name in ("pack-x1/mirror.git", "borrowed-x2", "mirror.git/lfs/objects/tmp_x3", "mirror.git/lfs/tmp"):
                (folder / name).mkdir(parents=True)
                (folder / name / "part").write_bytes(b"half")
            (folder / "mirror.git" / "tmp_pack_x4").write_bytes(b"half")
        world.pushes.remove_orphans()
        assert _files(mirror) == whole


def _files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
