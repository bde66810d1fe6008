"""Run a program as root of the VMs' ids, for work on their files."""

from __future__ import annotations

import marshal
import os
import sys
import warnings  # noqa: F401 - os.execvp imports it, when the new ids may no longer read its file

from .ids import as_root
from .kernel import restore_signals

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import NoReturn

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/",
    "LC_ALL": "C.UTF-8",
}


_FIRST_FILE = 3


def run(answer: int, *files: int) -> int:
    """Run a program in a folder; write its exit status to ``answer``, one byte; return an exit status.

    It gets the files from descriptor 3 on. The folder is entered by its name: a descriptor from the service, which may
    be in another mount namespace, would be of a mount there, that none can be made from.
    """
    argv, uid_map, gid_map, folder = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    os.chdir(folder)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)

    def become() -> NoReturn:
        for number, file in enumerate(files, _FIRST_FILE):  # in their order, so that none is replaced before its turn
            os.dup2(file, number)
        restore_signals()
        os.execvpe(argv[0], argv, _ENVIRONMENT)  # noqa: S606 - the very point

    status = as_root(uid_map, gid_map, become)
    os.write(answer, bytes([status if status >= 0 else 128 - status]))
    return 0
