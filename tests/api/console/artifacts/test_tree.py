"""The tree of a build's artifacts."""

from __future__ import annotations

from datetime import UTC, datetime

from api.console.artifacts import Folder, trees
from storage import Artifact


def kept(*paths: str, job: str = "job") -> list[Artifact]:
    made = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Artifact(0, path, "build", job, path, "text/plain", 10, "", executable=False, created_at=made) for path in paths
    ]


def shape(folder: Folder) -> object:
    return {folder.name: [*map(shape, folder.folders), *(file.name for file in folder.files)]}


def test_files_are_in_folders_of_their_jobs():
    found = trees([*kept("a/b/one", "a/two", "three", job="1"), *kept("x", job="2")], {"1": "Unit", "2": "Lint"})
    assert [shape(each) for each in found] == [{"Unit": [{"a": [{"b": ["one"]}, "two"]}, "three"]}, {"Lint": ["x"]}]
    assert (found[0].count, found[0].size) == (3, 30)


def test_a_folder_of_one_folder_is_one_with_it():
    (found,) = trees(kept("a/b/c/one", "a/b/c/two"), {"job": "Unit"})
    assert shape(found) == {"Unit": [{"a/b/c": ["one", "two"]}]}


def test_a_very_deep_file_has_the_rest_of_its_path_as_its_name():
    (found,) = trees(kept("d/" * 500 + "file"), {})
    (folder,) = found.folders
    assert (folder.name, folder.files[0].name) == ("/".join("d" * 16), "d/" * 484 + "file")
