"""The user that a command runs as: files of the service stay the service's, also if root calls."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")


def become_owner(state_dir: Path) -> None:
    """Become the owner of a state directory, if root calls and the owner is another user.

    The service could not use VMs, images and logs of root's. Does nothing if the directory does not exist.
    """
    owner = _owner_to_become(state_dir)
    if owner is None:
        return
    os.initgroups(owner.pw_name, owner.pw_gid)
    os.setgid(owner.pw_gid)
    os.setuid(owner.pw_uid)
    os.environ.update(HOME=owner.pw_dir, USER=owner.pw_name, LOGNAME=owner.pw_name)
    os.environ.pop("XDG_RUNTIME_DIR", None)
    if not os.access(".", os.X_OK):
        os.chdir("/")


def as_owner(state_dir: Path, call: Callable[[], T]) -> T:
    """Call a function as that user and return its result; both must be picklable."""
    if _owner_to_become(state_dir) is None:
        return call()
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - few commands start a process
    from multiprocessing import get_context  # noqa: PLC0415 - the same

    with ProcessPoolExecutor(1, get_context("fork"), initializer=become_owner, initargs=(state_dir,)) as other:
        return other.submit(call).result()


def _owner_to_become(state_dir: Path) -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    try:
        owner = pwd.getpwuid(state_dir.stat().st_uid)
    except (OSError, KeyError):
        return None
    return None if owner.pw_uid == 0 else owner
