"""The events of a build's end, compared with the end that was told last of its branch. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import BuildEvent, BuildState

if TYPE_CHECKING:
    from storage import ToldEnd


def events_of(number: int, state: BuildState, before: ToldEnd | None) -> tuple[BuildEvent, ...]:
    """Return the events of a build's end, the most particular first.

    ``before`` is the end that was told last of its branch: of an earlier build, or of this one before it was retried. A
    build that ends after a newer one of its branch says nothing about the branch any more, and neither does one that
    was canceled.
    """
    overtaken = before is not None and before.number > number
    failed_before = before is not None and before.state is BuildState.FAILED
    if state is BuildState.FAILED and not failed_before and not overtaken:
        return BuildEvent.FIRST_FAILURE, BuildEvent.FINISHED
    if state is BuildState.PASSED and failed_before and not overtaken:
        return BuildEvent.RECOVERED, BuildEvent.FINISHED
    return (BuildEvent.FINISHED,)
