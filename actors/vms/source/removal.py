"""The shell program that clears a workspace of what a new source lacks or replaces. Pure.

It walks the folders one by one and never through a link, even if a step has put something else in place of a folder. It
calls the functions of ``guest/clear.sh``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.files import EntryKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from storage.files import Difference

_BATCH = 200
"""Names in one command, far below the bytes that Linux allows for arguments."""


def removal_script(differences: Iterable[Difference], *, everything: bool = False) -> Iterator[bytes]:
    """Yield the program, line by line, for differences in the order of `storage.manifests.differences`.

    Folders of both manifests must still be folders, else the program exits with 69. With ``everything`` it removes
    whatever is in place of a folder instead, because all of the new manifest is written afterwards.
    """
    walk = _Walk()
    replaced = b"/"
    yield b"{\n"
    for difference in differences:
        if difference.path.startswith(replaced):
            continue
        *folders, name = difference.path.split(b"/")
        yield from walk.to(folders)
        if difference.after is EntryKind.FOLDER:
            kept = difference.before is EntryKind.FOLDER and not everything
            yield from walk.down(name, b"kept" if kept else b"new")
        elif difference.after is None and difference.before is EntryKind.FOLDER:
            yield from walk.down(name, b"gone")
        else:
            yield from walk.drop(name)
            replaced = difference.path + b"/"
    yield from walk.end()
    yield b"exit 0\n}\n"


class _Walk:
    """The position of the program: the folders that it has entered, and the names to remove in the last."""

    def __init__(self) -> None:
        self._folders: list[tuple[bytes, bytes]] = []
        self._names: list[bytes] = []

    def to(self, folders: list[bytes]) -> Iterator[bytes]:
        """Go to a folder; folders on the way that are not among the differences are in both manifests."""
        here = [name for name, _ in self._folders]
        common = next((i for i, (a, b) in enumerate(zip(here, folders, strict=False)) if a != b), None)
        common = min(len(here), len(folders)) if common is None else common
        while len(self._folders) > common:
            yield from self._up()
        for name in folders[common:]:
            yield from self.down(name, b"kept")

    def down(self, name: bytes, state: bytes) -> Iterator[bytes]:
        """Enter a folder that is ``kept``, ``new`` or ``gone``."""
        yield from self._flush()
        self._folders.append((name, state))
        yield b"down %s %s\n" % (state, _quoted(name))

    def drop(self, name: bytes) -> Iterator[bytes]:
        """Remove a name from the current folder, whatever it is."""
        self._names.append(name)
        if len(self._names) == _BATCH:
            yield from self._flush()

    def end(self) -> Iterator[bytes]:
        """Go back to the start of the walk."""
        yield from self.to([])
        yield from self._flush()

    def _up(self) -> Iterator[bytes]:
        yield from self._flush()
        name, state = self._folders.pop()
        yield b"up\n"
        if state == b"gone":
            yield b"prune %s\n" % _quoted(name)

    def _flush(self) -> Iterator[bytes]:
        if self._names:
            yield b"drop %s\n" % b" ".join(map(_quoted, self._names))
            self._names = []


def _quoted(name: bytes) -> bytes:
    return b"'./" + name.replace(b"'", b"'\\''") + b"'"
