"""Programs that run in the VM, on whatever `python3` its image has; they travel there as text."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["program"]


def program(name: str) -> str:
    """Return the text of one."""
    return files(__name__).joinpath(f"{name}.py").read_text(encoding="utf-8")
