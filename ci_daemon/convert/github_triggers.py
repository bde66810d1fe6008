"""Events of GitHub's workflows as triggers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.convert.jobs import label
from ci_daemon.draft import PullRequests, Pushes

if TYPE_CHECKING:
    from ci_daemon.convert.located import Located
    from ci_daemon.convert.omissions import Omissions
    from ci_daemon.draft.model import Trigger

_TYPES = ("opened", "synchronize", "reopened", "closed", "ready_for_review")
_SPECIAL = frozenset("?+[]!\\")
_BY_HAND = "workflow_dispatch"


def triggers_of(on: Located, omissions: Omissions) -> tuple[Trigger, ...]:
    """Return the triggers of a workflow; events that have none here are left out."""
    events = on.mapping() or {each.text or "?": each.with_value(None) for each in on.items()}
    found: list[Trigger] = []
    for event, filters in events.items():
        match event:
            case "push":
                found += _pushes(filters, omissions)
            case "pull_request":
                found += _pull_requests(filters, omissions)
            case "schedule":
                for each in filters.items():
                    cron = label(each.get("cron").text or "?").replace("'", "?")
                    why = f"a schedule is no part of the file: `ci-daemon schedule add ORG PIPELINE '{cron}'`"
                    omissions.add(each, "on.schedule", why)
            case _ if event != _BY_HAND:
                omissions.add(filters, f"on.{label(event)}", "nothing is built for this event here")
    if (inputs := on.get(_BY_HAND, "inputs")).value is not None:
        omissions.add(inputs, f"on.{_BY_HAND}.inputs", "a build has variables in their place: `env` of the API")
    return tuple(found)


def _pushes(filters: Located, omissions: Omissions) -> list[Trigger]:
    if (filters.value is not None and not filters.mapping()) or set(filters.mapping()) - {"branches", "tags"}:
        lost = ", ".join(sorted(map(label, set(filters.mapping()) - {"branches", "tags"}))) or "its filter"
        omissions.add(filters, "on.push", f"pushes trigger nothing: without {lost} more would be built than there")
        return []
    branches, tags = filters.get("branches"), filters.get("tags")
    if branches.value is None and tags.value is None:
        return [Pushes(branches=("*",)), Pushes(tags=("*",))]
    found: list[Trigger] = []
    if names := _globs(branches, "on.push.branches", omissions):
        found.append(Pushes(branches=names))
    if names := _globs(tags, "on.push.tags", omissions):
        found.append(Pushes(tags=names))
    return found


def _pull_requests(filters: Located, omissions: Omissions) -> list[Trigger]:
    if (filters.value is not None and not filters.mapping()) or set(filters.mapping()) - {"branches", "types"}:
        lost = ", ".join(sorted(map(label, set(filters.mapping()) - {"branches", "types"}))) or "its filter"
        why = f"pull requests trigger nothing: without {lost} more would be built than there"
        omissions.add(filters, "on.pull_request", why)
        return []
    types = []
    for each in filters.get("types").items():
        if each.text in _TYPES:
            types.append(each.text)
        else:
            omissions.add(each, "on.pull_request.types", f"{label(each.scalar or '?')} triggers nothing here")
    branches = _globs(filters.get("branches"), "on.pull_request.branches", omissions)
    lost_all = (filters.get("types").items() and not types) or (filters.get("branches").items() and not branches)
    if lost_all:
        return []
    why = "the head is built as its author pushed it, not merged into its target as there"
    omissions.add(filters, "on.pull_request", why)
    return [PullRequests(branches, tuple(each for each in types if each))]


def _globs(patterns: Located, key: str, omissions: Omissions) -> tuple[str, ...]:
    """Return patterns of names; none if one of them excludes names, since more would be built without it.

    Here ``*`` matches ``/`` too, as ``**`` does there.
    """
    found: list[str] = []
    for each in patterns.items():
        pattern = each.number_or_text or ""
        if pattern.startswith("!"):
            why = f"without {label(pattern)}, which has no counterpart, more would be built: these trigger nothing"
            omissions.add(each, key, why)
            return ()
        if not pattern or _SPECIAL & set(pattern) or label(pattern) != pattern:
            omissions.add(each, key, f"the pattern {label(pattern)} has no counterpart here: it triggers nothing")
            continue
        if "*" in pattern.replace("**", ""):
            names = "names with slashes" if pattern == "*" else "names with more slashes"
            omissions.add(each, key, f"{pattern} is kept, and matches {names}, too")
        found.append(pattern.replace("**", "*"))
    return tuple(found)
