"""The folders of local builds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_daemon.local import CacheUnusable, LocalFolders


def test_they_are_below_the_cache_directory_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert LocalFolders.of_user({}).cache == tmp_path / ".cache" / "ci-daemon"
    assert LocalFolders.of_user({"XDG_CACHE_HOME": "relative"}).cache == tmp_path / ".cache" / "ci-daemon"
    given = LocalFolders.of_user({"XDG_CACHE_HOME": str(tmp_path / "elsewhere")})
    assert given.images == tmp_path / "elsewhere" / "ci-daemon" / "images"


def test_only_their_owner_may_enter_them(tmp_path: Path):
    folders = LocalFolders(tmp_path / "new" / "ci-daemon")
    folders.make()
    folders.make()
    assert [path.stat().st_mode & 0o777 for path in (folders.cache, folders.projects)] == [0o700, 0o700]


def test_trees_of_one_name_have_different_folders(tmp_path: Path):
    folders = LocalFolders(tmp_path)
    one, other = folders.project(Path("/a/My Shop")), folders.project(Path("/b/My Shop"))
    assert one != other
    assert one.name.startswith("my-shop-")
    assert folders.project(Path("/a/x/../My Shop")) == one


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_the_cache_of_another_user_is_refused(tmp_path: Path):
    os.chown(tmp_path, 1, 1)
    with pytest.raises(CacheUnusable, match=r"belongs to daemon: run this as daemon, or set XDG_CACHE_HOME"):
        LocalFolders.of_user({"XDG_CACHE_HOME": str(tmp_path)})
