"""Events of GitHub's workflows as triggers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.convert.located import EMPTY, Located
from ci_daemon.draft import PullRequests, Pushes

if TYPE_CHECKING:
    from ci_daemon.convert.omissions import Omissions
    from ci_daemon.draft.model import Trigger

__all__ = ["triggers_of"]

_TYPES = ("opened", "synchronize", "reopened", "closed", "ready_for_review")
_SPECIAL = frozenset("?+[]!\\")
_BY_HAND = "workflow_dispatch"


def triggers_of(on: Located, omissions: Omissions) -> tuple[Trigger, ...]:
    """Return the triggers of a workflow; events that have none here are left out."""
    events = on.mapping() or {each.text or "?": Located(each.line, None) for each in on.items()}
    found: list[Trigger] = []
    for event, filters in events.items():
        match event:
            case "push":
                found += _pushes(filters, omissions)
            case "pull_request":
                found += _pull_requests(filters, omissions)
            case "schedule":
                for each in filters.items():
                    cron = each.get("cron").text
                    why = f"a schedule is no part of the file: `ci-daemon schedule add ORG PIPELINE '{cron}'`"
                    omissions.add(each, "on.schedule", why)
            case _ if event != _BY_HAND:
                omissions.add(filters, f"on.{event}", "nothing is built for this event here")
    if (inputs := on.get(_BY_HAND, "inputs")).value is not None:
        omissions.add(inputs, f"on.{_BY_HAND}.inputs", "a build has variables in their place")
    return tuple(found)


def _pushes(filters: Located, omissions: Omissions) -> list[Trigger]:
    known = frozenset({"branches", "tags"})
    omissions.unknown(filters, known, "on.push.")
    if set(filters.mapping()) - known:  # without its filter it would build more than it should
        omissions.add(filters, "on.push", "it is left out with its filter")
        return []
    branches, tags = filters.get("branches"), filters.get("tags")
    if branches is EMPTY and tags is EMPTY:
        return [Pushes(branches=("*",)), Pushes(tags=("*",))]
    found: list[Trigger] = []
    if names := _globs(branches, "on.push.branches", omissions):
        found.append(Pushes(branches=names))
    if names := _globs(tags, "on.push.tags", omissions):
        found.append(Pushes(tags=names))
    return found


def _pull_requests(filters: Located, omissions: Omissions) -> list[Trigger]:
    known = frozenset({"branches", "types"})
    omissions.unknown(filters, known, "on.pull_request.")
    if set(filters.mapping()) - known:
        omissions.add(filters, "on.pull_request", "it is left out with its filter")
        return []
    types = []
    for each in filters.get("types").items():
        if each.text in _TYPES:
            types.append(each.text)
        else:
            omissions.add(each, "on.pull_request.types", f"{each.scalar} is not known here")
    branches = _globs(filters.get("branches"), "on.pull_request.branches", omissions)
    lost = (filters.get("types").items() and not types) or (filters.get("branches").items() and not branches)
    return [] if lost else [PullRequests(branches, tuple(each for each in types if each))]


def _globs(patterns: Located, key: str, omissions: Omissions) -> tuple[str, ...]:
    """Return patterns of names. Here ``*`` matches ``/`` too, as ``**`` does there."""
    found: list[str] = []
    for each in patterns.items():
        pattern = each.scalar or ""
        if not pattern or _SPECIAL & set(pattern):
            omissions.add(each, key, f"the pattern {pattern} has no counterpart here")
            continue
        if "*" in pattern.replace("**", "") and pattern != "*":
            omissions.add(
                each,
                key,
                f"{pattern} is kept, and matches names with more slashes, too",
            )
        if pattern == "*":
            omissions.add(each, key, "it is kept, and matches names with slashes, too")
        found.append(pattern.replace("**", "*"))
    return tuple(found)
