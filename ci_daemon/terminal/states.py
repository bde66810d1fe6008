"""Colours of the states of builds, jobs and VMs."""

from __future__ import annotations

__all__ = ["state_style"]

_STYLES = {
    "passed": "green",
    "failed": "bold red",
    "timed_out": "bold red",
    "failing": "red",
    "running": "yellow",
    "active": "yellow",
    "rendering": "yellow",
    "held": "magenta",
}


def state_style(state: str) -> str:
    """Return rich's name of a state's style."""
    return _STYLES.get(state, "dim")
