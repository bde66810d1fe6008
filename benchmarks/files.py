"""Files that a job takes of others and folders that it keeps, beside copies on the host."""

from __future__ import annotations

import os
import subprocess
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

from actors.vms import Connection, FileBytes, LaidFile, VmSpec, fingerprint_of, lay_files, lay_folder, pack_folder
from benchmarks.figures import Benchmark, interleaved
from storage import SystemClock
from storage.files import write_and_sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.figures import Figure
    from benchmarks.testbed import Testbed

_ROUNDS = 5
_TREES = (
    ("one file of 100 MB", 1, 100_000_000),
    ("100 files of 1 MB", 100, 1_000_000),
    ("10,000 files of 10 KB", 10_000, 10_000),
)
_FOLDERS = 100
_MOST_BYTES = 1 << 31
_TIMEOUT_SECONDS = 600.0


def _measure(testbed: Testbed) -> Iterator[Figure]:
    vm = str(uuid4())
    testbed.provider.park(vm)
    testbed.provider.attach(VmSpec(vm, testbed.image, network=False))
    with Connection(testbed.provider.connect(vm), SystemClock()) as connection:
        for label, number, size in _TREES:
            copies = _Copies(testbed.folder / str(number), number, size, connection)
            yield interleaved(f"`files`, {label}", "ms", _ROUNDS, copies.take, copies.by_hand)
            yield interleaved(f"`keep`, {label}", "ms", _ROUNDS, copies.keep, copies.by_hand)
            yield interleaved(f"kept before, {label}", "ms", _ROUNDS, copies.lay, copies.by_hand)
    testbed.provider.destroy(vm)


class _Copies:
    """A tree of files on the host, and ways to copy it. Each returns the milliseconds that it took.

    Copies stay until the end: 10,000 files that followed as many removed ones took up to ten times as long, by any way,
    perhaps because ext4 looks for a free inode past those that were freed in the last minutes.
    """

    def __init__(self, folder: Path, number: int, size: int, connection: Connection) -> None:
        self._connection = connection
        self._folder, self._tree, self._tar = folder, folder / "tree", folder / "tar"
        self._size, self._copied, self._laid = size, count(), count()
        for each in range(number):
            file = self._tree / str(each % _FOLDERS) / str(each)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(os.urandom(size))
        self._files = [file for file in sorted(self._tree.rglob("*")) if file.is_file()]
        self._name = ""

    def by_hand(self) -> float:
        """Copy it by `cp` on the host's disk."""
        started = perf_counter()
        subprocess.run(["cp", "-r", self._tree, self._folder / f"copy-{next(self._copied)}"], check=True)
        return _since(started)

    def take(self) -> float:
        """Lay it into the VM's workspace, as artifacts of other jobs are."""
        self._name = f"{self._folder.name}-{next(self._laid)}"
        files = [
            LaidFile(f"{self._name}/{file.relative_to(self._tree)}", self._size, False, file)  # noqa: FBT003 - a field
            for file in self._files
        ]
        started = perf_counter()
        lay_files(self._connection, files, time=1, timeout=_TIMEOUT_SECONDS)
        return _since(started)

    def keep(self) -> float:
        """Look whether it has changed, and pack it into a file on the host."""
        started = perf_counter()
        fingerprint_of(self._connection, self._name, timeout=_TIMEOUT_SECONDS)
        packed = pack_folder(
            self._connection,
            self._name,
            most_files=3 * len(self._files),
            most_bytes=_MOST_BYTES,
            timeout=_TIMEOUT_SECONDS,
        )
        with self._tar.open("wb") as tar:
            write_and_sync(tar, packed)
        return _since(started)

    def lay(self) -> float:
        """Lay what was packed into the VM's workspace."""
        started = perf_counter()
        tar = FileBytes(self._tar, self._tar.stat().st_size)
        lay_folder(self._connection, f"{self._folder.name}-{next(self._laid)}", [tar], timeout=_TIMEOUT_SECONDS)
        return _since(started)


def _since(started: float) -> float:
    return (perf_counter() - started) * 1000


FILES = Benchmark(
    name="files",
    title="100 MB of files into a job's workspace, and out of it",
    baseline="`cp -r` of the same files on the host's disk, which waits for no write.",
    measure=_measure,
)
