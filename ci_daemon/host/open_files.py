"""The process's limit of open files, raised as far as the host allows."""

from __future__ import annotations

import resource

_MIN_FILES = 512
_WANTED_FILES = 65_536


class TooFewFiles(Exception):
    """The host lets the process open too few files."""


def raise_open_file_limit() -> None:
    """Raise the soft limit, which shells set low, to the hard limit, at most 65,536.

    Raises TooFewFiles if the hard limit is below 512.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if limit < _MIN_FILES:
        raise TooFewFiles(
            f"only {limit} files may be open at once, the service needs {_MIN_FILES}: raise the limit, as with"
            f" `ulimit -Hn {_WANTED_FILES}` as root, or LimitNOFILE={_WANTED_FILES} in the unit"
        )
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
