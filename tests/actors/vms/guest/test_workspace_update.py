"""Archives laid one after another on a real VM's disk, with changes by steps in between."""

from __future__ import annotations

import io
import itertools
import json
import random
import shlex
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actors.vms import (
    Connection,
    FileBytes,
    LaidFile,
    SourceError,
    Stream,
    in_job,
    lay_files,
    update_workspace,
    write_source_manifest,
)
from actors.vms.ssh.files import in_bytes
from actors.vms.ssh.pipes import PipeStream
from storage import SystemClock
from tests.actors.vms.conftest import Vm

ROOM = 1 << 30
THEN, NOW = 1_000_000_000, 1_500_000_000
TIMEOUT = 30.0

Tree = dict[str, Any]
"""Maps a path to a file's text, LINK or HARD and a target, or None for a folder.

A tuple is one of these with a mode.
"""

LINK, HARD = "link to ", "same as "
LISTING = """
import hashlib, json, os
found = {}
for folder, folders, files in os.walk(b".", followlinks=False):
    for name in folders + files:
        path = os.path.join(folder, name)[2:]
        status = os.lstat(path)
        if os.path.islink(path):
            what = "link to " + os.fsdecode(os.readlink(path))
        elif os.path.isdir(path):
            what = None
        else:
            what = open(path, "rb").read().decode("utf-8", "surrogateescape")
        found[os.fsdecode(path)] = (what, status.st_mode & 0o7777, int(status.st_mtime), status.st_nlink)
print(json.dumps(found))
"""


def packed(path: Path, tree: Tree) -> Path:
    with tarfile.open(path, "w:gz", errors="surrogateescape") as tar:
        for name, what in tree.items():
            info = tarfile.TarInfo(name)
            text, info.mode = what if isinstance(what, tuple) else (what, 0o755 if what is None else 0o644)
            info.mtime = 315532800
            if text is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(text, str) and text.startswith((LINK, HARD)):
                info.type = tarfile.SYMTYPE if text.startswith(LINK) else tarfile.LNKTYPE
                info.linkname = text.removeprefix(LINK).removeprefix(HARD)
            else:
                content = text if isinstance(text, bytes) else text.encode()
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
                continue
            tar.addfile(info)
    return path


class MeteredConnection(Connection):
    """A connection that counts the bytes that it sends to programs, and dies in a packet on request."""

    sent = 0
    dies = False

    def transfer(self, script: str, *, stdin: Iterable[bytes | FileBytes] = (), **options: Any) -> Stream | PipeStream:
        return super().transfer(script, stdin=self._sending(stdin), **options)

    def _sending(self, packets: Iterable[bytes | FileBytes]) -> Iterator[bytes]:
        for packet in in_bytes(packets):
            self.sent += len(packet)
            if self.dies:
                yield packet[: len(packet) // 2]
                raise SourceError("the daemon dies here")
            yield packet


@dataclass
class Disk:
    """A VM's disk, on which archives are laid one after another."""

    connection: MeteredConnection
    folder: Path
    manifests: list[Path] = field(default_factory=list)

    def update(self, tree: Tree, at: int = NOW) -> None:
        number = len(self.manifests)
        archive = packed(self.folder / f"{number}.tar.gz", tree)
        self.manifests.append(self.folder / f"{number}.manifest")
        write_source_manifest(archive, self.manifests[-1], ROOM)
        current = self.manifests[-2] if number else None
        update_workspace(self.connection, archive, self.manifests[-1], current, time=at)

    def run(self, script: str) -> str:
        done = self.connection.run(in_job(f"cd /workspace && {script}"), timeout=TIMEOUT)
        assert done.exit_code == 0, done
        return done.stdout.decode()

    def forget(self) -> None:
        """Empty the workspace, as on a new disk."""
        self.run("find . -mindepth 1 -delete")
        self.manifests.clear()

    def found(self) -> dict[str, tuple[str | None, int, int, int]]:
        listed = json.loads(self.run(f"python3 -c {shlex.quote(LISTING)}"))
        return {path: tuple(facts) for path, facts in listed.items()}

    def texts(self) -> dict[str, str | None]:
        return {path: what for path, (what, *_) in self.found().items()}

    def times(self) -> dict[str, int]:
        return {path: mtime for path, (what, _, mtime, _) in self.found().items() if what is not None}


@pytest.fixture
def disk(vm: Vm, tmp_path: Path) -> Iterator[Disk]:
    with MeteredConnection(vm.endpoint(), SystemClock()) as connection:
        yield Disk(connection, tmp_path)


def test_an_empty_disk_gets_all_with_one_time(disk: Disk):
    tree = {"b/a": "a", "b/run": ("x", 0o755), "empty": None, "link": LINK + "b/a", "b/private": (None, 0o700)}
    disk.update(tree)
    assert {path: facts[:3] for path, facts in disk.found().items()} == {
        "b": (None, 0o755, NOW),
        "b/a": ("a", 0o644, NOW),
        "b/private": (None, 0o700, NOW),
        "b/run": ("x", 0o755, NOW),
        "empty": (None, 0o755, NOW),
        "link": (LINK + "b/a", 0o777, NOW),
    }


def test_equal_files_keep_their_times_and_changes(disk: Disk):
    disk.update({"same": "1", "patched": "2", "removed": "3", "folder/x": "4"}, THEN)
    disk.run("echo patched >patched; touch -d @7 patched; rm removed; touch -d @8 made folder/made")
    disk.connection.sent = 0
    disk.update({"same": "1", "patched": "2", "removed": "3", "folder/x": "4"})
    assert disk.connection.sent == 0
    assert disk.times() == {"same": THEN, "patched": 7, "folder/x": THEN, "made": 8, "folder/made": 8}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"f": "a+b"}, {"f": "a-b"}),
        ({"f": "text"}, {"f": ("text", 0o755)}),
        ({"f": ("text", 0o755)}, {"f": "text"}),
        ({"f": "text"}, {"f": LINK + "other"}),
        ({"f": LINK + "other"}, {"f": LINK + "else"}),
        ({"f": LINK + "other"}, {"f": "text"}),
        ({"f": "text"}, {"f/g/h": "deep"}),
        ({"f/g/h": "deep", "f/i": "x"}, {"f": "text"}),
        ({"f/g": "x", "f/h": "y"}, {"f": LINK + "other"}),
        ({"f": LINK + "other"}, {"f/g": "x"}),
        ({"f": None}, {"f": "text"}),
        ({"f": "text"}, {"f": None}),
        ({"f/a": "x"}, {"f/b": "x"}),
        ({"f/a": "x"}, {"g/a": "x"}),
        ({"f/a": "x"}, {}),
        ({"f": None}, {}),
        ({}, {"f": None, "g/h": "x"}),
        ({"f": (None, 0o755)}, {"f": (None, 0o700)}),
        ({"a/b/c/d": "x", "a-b": "y", "a.c/d": "z"}, {"a/b/e": "x", "a-b/c": "y", "a": None}),
    ],
)
def test_every_difference_is_made_good(disk: Disk, before: Tree, after: Tree):
    kept = {"kept": "k", "deep/kept": "k"}
    disk.update(kept | before, THEN)
    disk.update(kept | after)
    found, times = disk.found(), disk.times()
    disk.forget()
    disk.update(kept | after)
    assert [facts[:2] for facts in found.values()] == [facts[:2] for facts in disk.found().values()]
    assert times.pop("kept") == times.pop("deep/kept") == THEN
    assert set(times.values()) <= {NOW}


def test_files_of_steps_stay_next_to_removed_ones(disk: Disk):
    disk.update({"gone/a": "x", "gone/deep/b": "x", "empty/c": "x"}, THEN)
    disk.run("echo made >gone/deep/made; echo top >made")
    disk.update({})
    assert disk.texts() == {"gone": None, "gone/deep": None, "gone/deep/made": "made\n", "made": "top\n"}


def test_what_steps_made_gives_way_to_sources(disk: Disk):
    disk.update({"a": "x"}, THEN)
    disk.run(
        "mkdir -p file/deep && touch file/deep/made; echo made >folder; ln -s /etc link; mkdir -p both; touch both/made"
    )
    disk.update({"a": "x", "file": "source", "folder/b": "y", "link/c": "z", "both/d": "w"})
    assert disk.texts() == {
        "a": "x", "file": "source", "folder": None, "folder/b": "y", "link": None, "link/c": "z",
        "both": None, "both/d": "w", "both/made": "",
    }  # fmt: skip


@pytest.mark.parametrize("place", ["/srv/outside", "../srv/outside", "other"])
def test_a_link_in_the_place_of_a_folder_leads_nowhere(disk: Disk, place: str):
    disk.run("mkdir /srv/outside && echo theirs | tee /srv/outside/changed /srv/outside/removed")
    disk.update(
        {"src/changed": "1", "src/removed": "2", "src/equal": "3", "other/changed": "4", "other/removed": "5"}, THEN
    )
    disk.run(f"rm -r src && ln -s {place} src")
    disk.update({"src/changed": "new", "src/equal": "3", "other/changed": "4", "other/removed": "5"})
    assert disk.texts() == {
        "src": None, "src/changed": "new", "src/equal": "3", "other": None, "other/changed": "4", "other/removed": "5",
    }  # fmt: skip
    assert disk.run("cat /srv/outside/changed /srv/outside/removed") == "theirs\ntheirs\n"


def test_a_link_in_place_of_a_removed_folder_is_not_followed(disk: Disk):
    disk.run("mkdir /srv/outside && touch /srv/outside/a")
    disk.update({"gone/a": "1", "kept": "2"}, THEN)
    disk.run("rm -r gone && ln -s /srv/outside gone")
    disk.update({"kept": "2"})
    assert disk.texts() == {"gone": LINK + "/srv/outside", "kept": "2"}
    assert disk.run("ls /srv/outside") == "a\n"


NAMES = [
    "-rf", "--help", "-", "*", "?", "[a]", "a b", " ", "$(touch /srv/bad)", "`x`", "'", '"', "\\", "\\n", "a\nb", "\n",
    "é", "\udcff\udc80", "".join(chr(0xDC00 + byte) for byte in range(0x80, 0x90)), ";", "#", "~", "!", "..a", "=x",
]  # fmt: skip


def test_any_name_is_laid_changed_and_removed(disk: Disk):
    everywhere = [*NAMES, *(f"{name}/{other}" for name, other in itertools.product(("d", "-d", "d\n'"), NAMES))]
    names = [f"{number}/{name}" for number, name in enumerate(everywhere)]
    same = dict.fromkeys(everywhere, "same")
    disk.update(dict.fromkeys(names, "old") | same, THEN)
    disk.update(dict.fromkeys(names[::2], "new") | same)
    assert {path: what for path, what in disk.texts().items() if what is not None} == {
        **dict.fromkeys(names[::2], "new"),
        **same,
    }
    assert disk.run("ls -A /srv") == ""


def test_hard_links_are_laid_as_such(disk: Disk):
    disk.update({"a": "1", "b": HARD + "a", "c/d": HARD + "a"}, THEN)
    assert {path: facts[3] for path, facts in disk.found().items() if path != "c"} == {"a": 3, "b": 3, "c/d": 3}
    disk.update({"a": "1", "b": "other", "c/d": HARD + "a"})
    assert disk.texts() == {"a": "1", "b": "other", "c": None, "c/d": "1"}
    disk.update({"a": "2", "b": HARD + "a", "c/d": HARD + "a"})
    assert disk.texts() == {"a": "2", "b": "2", "c": None, "c/d": "2"}


def test_an_update_can_be_repeated_after_a_crash(disk: Disk):
    first, second = {"a/b": "1", "gone": "2", "kept": "3"}, {"a/b": "new", "kept": "3", "more": "x" * 200_000}
    disk.update(first, THEN)
    disk.connection.dies = True
    with pytest.raises(SourceError, match="dies here"):
        disk.update(second)
    disk.connection.dies = False
    disk.manifests.pop()
    disk.update(second)
    disk.manifests.pop()
    disk.update(second)
    assert disk.texts() == {"a": None, "a/b": "new", "kept": "3", "more": "x" * 200_000}
    assert disk.times()["kept"] == THEN


def test_a_first_update_that_was_cut_short_is_done_again(disk: Disk):
    disk.update({"a": "half", "link": LINK + "a"}, THEN)
    disk.manifests.clear()
    disk.update({"a": "whole", "link/b": "x"})
    assert disk.texts() == {"a": "whole", "link": None, "link/b": "x"}


def test_one_file_of_20_000_travels_alone(disk: Disk):
    tree: Tree = {f"src/{number % 100}/file-{number}.c": f"int f{number}(void);\n" for number in range(20_000)}
    disk.update(tree, THEN)
    assert disk.connection.sent > 20_000 * 1_024
    disk.connection.sent = 0
    tree["src/50/file-50.c"] = "changed\n"
    disk.update(tree)
    assert disk.connection.sent < 8_192
    assert disk.run(f"find . -type f -newermt @{THEN + 1}") == "./src/50/file-50.c\n"
    assert disk.run("cat src/50/file-50.c; find . -type f | wc -l") == "changed\n20000\n"


@pytest.mark.parametrize("seed", range(3))
def test_whatever_steps_do_each_difference_is_made_good(disk: Disk, seed: int):
    """Random trees, with random changes to the disk in between; each difference of the manifests is laid."""
    chance = random.Random(seed)
    disk.run("mkdir /srv/outside; for name in a b c; do echo theirs >/srv/outside/$name; done")
    for _ in range(12):
        disk.forget()
        before, after = _tree(chance), _tree(chance)
        disk.update(before, THEN)
        changes = "; ".join(_random_change(chance) for _ in range(chance.randrange(4)))
        disk.run(f"{{ {changes or ':'}; }} 2>/dev/null; :")
        left = disk.texts()
        disk.update(after)
        _check(_whole(before), _whole(after), left, disk.texts())
    assert disk.run("cat /srv/outside/a /srv/outside/b /srv/outside/c; ls /srv/outside") == "theirs\n" * 3 + "a\nb\nc\n"


def _tree(chance: random.Random) -> Tree:
    tree: Tree = {}
    for _ in range(chance.randrange(8)):
        path = "/".join(chance.choice("abc") for _ in range(chance.randint(1, 3)))
        taken = any(path.startswith(f"{other}/") and tree[other] is not None for other in tree)
        if not taken and not any(other == path or other.startswith(f"{path}/") for other in tree):
            tree[path] = chance.choice(["1", "2", None, LINK + "a"])
    return tree


def _random_change(chance: random.Random) -> str:
    path = "/".join(chance.choice("abc") for _ in range(chance.randint(1, 3)))
    return chance.choice([
        f"rm -rf {path}",
        f"rm -rf {path}; ln -s /srv/outside {path}",
        f"rm -rf {path}; ln -s . {path}",
        f"rm -rf {path}; echo made >{path}",
        f"mkdir -p {path}; echo made >{path}/a",
    ])  # fmt: skip


def _whole(tree: Tree) -> dict[str, str | None]:
    """Add the parent folders of all paths."""
    folders = {str(parent) for path in tree for parent in Path(path).parents if str(parent) != "."}
    return dict.fromkeys(folders) | tree


def _check(
    before: dict[str, str | None],
    after: dict[str, str | None],
    left: dict[str, str | None],
    found: dict[str, str | None],
) -> None:
    for path, what in after.items():
        if before.get(path, "nothing") != what:
            assert path in found, path
            assert found[path] == what, path
        else:
            assert found.get(path, "nothing") in {what, left.get(path, "nothing")}, path
    for path in found.keys() - after.keys():
        assert path in left, path
        assert path not in before or left[path] != before[path] or before[path] is None, path


def test_files_of_any_name_and_size_are_laid(disk: Disk, tmp_path: Path):
    """A header of a tar has room for 100 bytes of a path."""
    names = ["a", "é b/'c'", "\udcff", "x" * 100, "y" * 101, "d/" + "z" * 99, "/".join(["deep"] * 60)]
    sizes = [0, 1, 511, 512, 513, 70_000, (1 << 18) + 1]
    files, expected = [], {}
    for number, (name, size) in enumerate(zip(names, sizes, strict=True)):
        path = tmp_path / str(number)
        path.write_bytes(bytes([65 + number]) * size)
        files.append(LaidFile(name, size, number % 2 == 1, path))
        expected[name] = (chr(65 + number) * size, 0o755 if number % 2 else 0o644, NOW, 1)
    lay_files(disk.connection, files, time=NOW, timeout=TIMEOUT)
    laid = disk.found()
    assert {name: laid[name] for name in names} == expected
