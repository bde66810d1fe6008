"""The looks of states: one table for the terminal, the pages, their scripts and styles, and badges."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class Look(NamedTuple):
    """The sign, the tone and the terminal style of a state.

    The sign is for people who cannot tell the colour. A style sheet gives the tone a colour; the style is as rich
    writes it.
    """

    sign: str
    tone: str
    style: str

    @property
    def colour(self) -> str:
        """The style without its weight: the one word that is a colour."""
        return self.style.split()[-1]


_WAITS = Look("○", "waits", "dim")

LOOKS = {
    "failed": Look("✗", "failed", "bold red"),
    "timed_out": Look("✗", "failed", "bold red"),
    "failing": Look("✗", "failed", "red"),
    "timing_out": Look("●", "active", "dim"),
    "canceling": Look("●", "active", "dim"),
    "running": Look("●", "active", "yellow"),
    "rendering": Look("●", "active", "yellow"),
    "active": Look("●", "active", "yellow"),
    "assigned": Look("●", "active", "dim"),
    "held": Look("○", "waits", "magenta"),
    "scheduled": _WAITS,
    "pending": _WAITS,
    "creating": _WAITS,
    "parked": _WAITS,
    "canceled": Look("⊘", "ended", "dim"),
    "soft_failed": Look("!", "doubt", "yellow"),
    "passed": Look("✓", "passed", "green"),
    "skipped": Look("»", "ended", "dim"),
    "ended": Look("»", "ended", "dim"),
}
"""All states of builds, jobs and leases, and others that are shown, the worst first.

A VM renders or is held; a job that may fail has failed softly.
"""


def state_of_job(state: str, *, soft_failed: bool) -> str:
    """Return a job's state, with a name of its own for a failure that does not fail the build."""
    return "soft_failed" if soft_failed else state


def look_of(state: str) -> Look:
    """Return how a state looks; of one that is not known, as one that waits."""
    return LOOKS.get(state, _WAITS)


def state_word(state: str) -> str:
    """Return a state in words: `Timed out` of ``timed_out``."""
    return state.replace("_", " ").capitalize()


def in_signs(states: Sequence[str]) -> str:
    """Return how many states have each sign, as `✗ 1  ✓ 9`; `live.js` writes the same."""
    counts: dict[str, int] = {}
    for state, look in LOOKS.items():
        if number := states.count(state):
            counts[look.sign] = counts.get(look.sign, 0) + number
    return "  ".join(f"{sign} {number}" for sign, number in counts.items())


def worst(states: Collection[str]) -> str:
    """Return the state that matters most, of at least one."""
    return next(state for state in LOOKS if state in states)
