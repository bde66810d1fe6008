"""The download of git LFS over ssh alone, as a server does it: `git-lfs-transfer PATH download`.

The protocol is described at https://github.com/git-lfs/git-lfs/blob/main/docs/proposals/ssh_adapter.md. No server
that speaks it is a package of the registries that tests install from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_FLUSH, _DELIMITER = b"0000", b"0001"
_MOST = 32_768


def serve(repository: Path, given: BinaryIO, out: BinaryIO) -> None:
    """Answer requests until the client quits."""

    def answer(*lines: str, data: Iterator[bytes] | None = None) -> None:
        out.writelines(_packet(f"{line}\n".encode()) for line in lines)
        if data is not None:
            out.write(_DELIMITER)
            out.writelines(_packet(each) for each in data)
        out.write(_FLUSH)
        out.flush()

    answer("version=1")
    while request := _request(given):
        command, _, name = request[0].partition(" ")
        if command == "batch":
            wanted = [line for line in request[1:] if "=" not in line]
            answer("status 200", data=iter(f"{line} download\n".encode() for line in wanted))
        elif command == "get-object":
            content = repository / "lfs" / "objects" / name[:2] / name[2:4] / name
            answer("status 200", f"size={content.stat().st_size}", data=_pieces(content))
        else:
            answer("status 200")
        if command == "quit":
            return


def _packet(content: bytes) -> bytes:
    return f"{len(content) + 4:04x}".encode() + content


def _request(given: BinaryIO) -> list[str]:
    """Return the lines of a request; none at the end of the input."""
    lines = []
    while (size := given.read(4)) not in {b"", _FLUSH}:
        if size != _DELIMITER:
            lines.append(given.read(int(size, 16) - 4).decode().rstrip("\n"))
    return lines


def _pieces(content: Path) -> Iterator[bytes]:
    with content.open("rb") as file:
        while piece := file.read(_MOST):
            yield piece


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
