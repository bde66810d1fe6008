"""POSIX shell scripts that run in VMs; they need coreutils and util-linux, or busybox."""

from __future__ import annotations

import shlex
from importlib.resources import files

__all__ = ["script"]


def script(*names: str, **settings: str | float) -> str:
    """Return the named scripts joined in order, after assignments of ``settings`` to shell variables."""
    assignments = [f"{name}={shlex.quote(str(value))}\n" for name, value in settings.items()]
    texts = [files(__name__).joinpath(f"{name}.sh").read_text(encoding="utf-8") for name in names]
    return "".join(assignments + texts)
