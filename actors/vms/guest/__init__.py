"""Work in a VM over SSH: the command of a job, its files and its workspace.

The scripts here run in the service's own part of a VM, with its POSIX shell, coreutils, util-linux and perl.
"""

from __future__ import annotations

import shlex
from importlib.resources import files


def in_workspace(program: str) -> str:
    """Return a script that runs a shell program of the service's in the job's workspace."""
    return _confined(program, "workspace")


def in_home(program: str) -> str:
    """Return a script that runs a shell program of the service's in the home of the job's root."""
    return _confined(program, "home")


def _confined(program: str, place: str) -> str:
    return script("confined", program=program, request=script("request", word=place))


def in_job(program: str) -> str:
    """Return a script that runs a shell program with the programs and files of the job's disk."""
    enter = files(__name__).joinpath("enter.pl").read_text(encoding="utf-8")
    return "number=$$\n" + script("request", "enter", word="enter", program=program, enter=enter)


def script(*names: str, **settings: str | float) -> str:
    """Return the named scripts joined in order, after assignments of ``settings`` to shell variables."""
    assignments = [f"{name}={shlex.quote(str(value))}\n" for name, value in settings.items()]
    texts = [files(__name__).joinpath(f"{name}.sh").read_text(encoding="utf-8") for name in names]
    return "".join(assignments + texts)
