"""Programs that run in the VM on its image's own `python3`, and are sent there as text."""

from __future__ import annotations

import shlex
from importlib.resources import files

WORKSPACE = "/workspace"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8"}


def program(name: str) -> str:
    """Return the source text of a program."""
    return files(__name__).joinpath(f"{name}.py").read_text(encoding="utf-8")


def python(name: str, *arguments: object) -> str:
    """Return a shell command that runs a program of this package with none of the VM's environment."""
    env = " ".join(f"{key}={value}" for key, value in ENVIRONMENT.items())
    call = f"\nmain({', '.join(map(repr, arguments))})\n" if arguments else ""
    return f"env -i {env} python3 -I -S -c {shlex.quote(program(name) + call)}"
