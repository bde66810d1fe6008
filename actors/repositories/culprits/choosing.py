"""The next commits of a search, or what it has found. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import CulpritState, immutable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

_MOST_UNKNOWN = 2
"""The builds of a commit that end without a verdict, after which it is not built again."""


@immutable
class Verdict:
    """The end of a search: its state, a sentence, and the commit that it is about, if it is one."""

    state: CulpritState
    reason: str
    commit: str | None = None


def next_step(
    commits: Sequence[str], outcomes: Mapping[str, Sequence[bool | None]], at_once: int
) -> Verdict | tuple[str, ...]:
    """Return what a search has found, or the commits to build now, at most ``at_once``.

    Args:
        commits: the one on which the job passed last, and those after it, oldest first; on the last one it failed.
        outcomes: for each commit, what its builds said: passed, failed, or None, if that is not known. That of the
            first and last build, which the search began with, is among them.
        at_once: how many commits are built at a time, two at least.

    Each round divides what is left into one part more than it builds. So that no flaky job is taken for a broken one,
    the commit that is named has failed twice, and the one before it has passed twice.
    """
    told = [outcomes.get(each, ()) for each in commits]
    for place, each in enumerate(told):
        if True in each and False in each:
            return _contradiction(commits, place)
    low = max(place for place, each in enumerate(told) if True in each)
    failed = [place for place, each in enumerate(told) if False in each and place > low]
    if not failed:
        return Verdict(CulpritState.UNCLEAR, "the job passes on later commits than those on which it failed")
    high = failed[0]
    twice = [place for place in (len(commits) - 1, 0) if len(_known(told[place])) < _ENOUGH]
    between = [place for place in range(low + 1, high) if told[place].count(None) < 1]
    if between:
        again = twice[: at_once - 1]
        return tuple(commits[place] for place in (*again, *_spread(between, at_once - len(again))))
    twice += [place for place in (high, low) if len(_known(told[place])) < _ENOUGH and place not in twice]
    if any(told[place].count(None) >= _MOST_UNKNOWN for place in twice):
        return Verdict(CulpritState.UNCLEAR, "the job could not be run again on the commits in question")
    if twice:
        return tuple(commits[place] for place in twice[:at_once])
    if high - low > 1:
        these = " or ".join(each[:12] for each in commits[low + 1 : high + 1][:3])
        more = high - low - 3
        named = f"{these}{f' or one of {more} others' if more > 0 else ''}"
        return Verdict(CulpritState.UNCLEAR, f"it is {named}: on some of them the job cannot be run")
    return Verdict(CulpritState.FOUND, "the job failed on it twice, and passed twice on the one before", commits[high])


_ENOUGH = 2
"""The verdicts of a commit that tell broken from flaky."""


def left(commits: Sequence[str], outcomes: Mapping[str, Sequence[bool | None]]) -> int:
    """Return how many commits may still be the culprit."""
    told = [outcomes.get(each, ()) for each in commits]
    low = max((place for place, each in enumerate(told) if True in each), default=0)
    high = next((place for place, each in enumerate(told) if False in each and place > low), len(commits) - 1)
    return high - low


def _contradiction(commits: Sequence[str], place: int) -> Verdict:
    if place == 0:
        reason = "the last commit on which the job passed fails now, too: it is flaky, or what it uses has changed"
        return Verdict(CulpritState.UNCLEAR, reason)
    return Verdict(CulpritState.FLAKY, "the job failed and passed on this commit", commits[place])


def _known(told: Iterable[bool | None]) -> list[bool]:
    return [each for each in told if each is not None]


def _spread(places: Sequence[int], count: int) -> Collection[int]:
    """Return at most ``count`` of the places, which divide them into parts of about one size."""
    count = min(count, len(places))
    return sorted({places[(len(places) + 1) * (each + 1) // (count + 1) - 1] for each in range(count)})
