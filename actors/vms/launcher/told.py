"""The files by which a command tells the service something besides its output.

They are below the job's ``/run``, which is of no disk: a command finds them empty, whatever disk it starts from.
"""

from __future__ import annotations

import os
import stat

FOLDER = "/run/ci"
NAMES = (b"output", b"summary", b"annotations")
_CHUNK = 1 << 16


class Told:
    """The files, for a process whose root is the job's.

    The job may replace them by anything. ``processes`` is a ``/proc`` on which it can mount nothing.
    """

    def __init__(self, processes: int) -> None:
        """Make them, for every user of the job to write. Raises OSError."""
        os.mkdir(FOLDER, 0o755)
        self._processes = processes
        self._folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        os.fchmod(self._folder, 0o755)
        for name in NAMES:
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=self._folder)
            os.fchmod(file, 0o666)
            os.close(file)
        self._device = os.fstat(self._folder).st_dev

    @property
    def names(self) -> list[bytes]:
        """The files that have something in them."""
        return [name for name in NAMES if self.read(name, 0)[0]]

    def read(self, name: bytes, most: int) -> tuple[int, bytes]:
        """Return the size of a file and its first bytes; of anything else in its place that it is empty.

        Nothing is opened before it is known to be a file in memory, so that no server of a file system can delay this.
        """
        try:
            place = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=self._folder)
        except OSError:
            return 0, b""
        try:
            found = os.fstat(place)
            if not stat.S_ISREG(found.st_mode) or found.st_dev != self._device:
                return 0, b""
            if not most:
                return found.st_size, b""
            file = os.open(f"self/fd/{place}", os.O_RDONLY, dir_fd=self._processes)
        except OSError:
            return 0, b""
        finally:
            os.close(place)
        content = b""
        while len(content) < most and (chunk := os.read(file, min(_CHUNK, most - len(content)))):
            content += chunk
        os.close(file)
        return found.st_size, content
