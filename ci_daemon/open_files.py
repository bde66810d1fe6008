"""The process's limit of open files, raised as far as the host allows."""

from __future__ import annotations

import resource

__all__ = ["TooFewFiles", "allow_open_files"]

_LEAST = 512
_ENOUGH = 65_536


class TooFewFiles(Exception):
    """The host lets the process open too few files."""


def allow_open_files() -> None:
    """Raise the soft limit, which shells set low, to the hard limit, at most 65,536.

    Raises TooFewFiles if the hard limit is below 512.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if most < _LEAST:
        raise TooFewFiles(
            f"only {most} files may be open at once, the service needs {_LEAST}: raise the limit, as with"
            f" `ulimit -Hn {_ENOUGH}` as root, or LimitNOFILE={_ENOUGH} in the unit"
        )
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
