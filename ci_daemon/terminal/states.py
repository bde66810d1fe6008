"""Colours of the states of builds, jobs and VMs."""

from __future__ import annotations

_UNREMARKABLE = "dim"

STATE_STYLES = {
    "passed": "green",
    "failed": "bold red",
    "timed_out": "bold red",
    "failing": "red",
    "running": "yellow",
    "active": "yellow",
    "rendering": "yellow",
    "held": "magenta",
} | dict.fromkeys(
    (
        "pending",
        "scheduled",
        "assigned",
        "canceling",
        "timing_out",
        "canceled",
        "skipped",
        "creating",
        "parked",
        "ended",
    ),
    _UNREMARKABLE,
)
"""Rich's styles of all states: of builds, jobs and leases, of a VM that renders, and of one on hold."""


def state_style(state: str) -> str:
    """Return rich's name of a state's style."""
    return STATE_STYLES.get(state, _UNREMARKABLE)
