"""Programs that run in the VM on its image's own `python3`, and are sent there as text."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["program"]


def program(name: str) -> str:
    """Return the source text of a program."""
    return files(__name__).joinpath(f"{name}.py").read_text(encoding="utf-8")
