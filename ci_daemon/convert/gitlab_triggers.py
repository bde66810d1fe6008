"""Conditions of GitLab's jobs as events, where triggers can say the same. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_daemon.convert.omissions import LeftOut
from ci_daemon.draft import PullRequests, Pushes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_daemon.convert.located import Located
    from ci_daemon.draft.model import Trigger

EVERY_PUSH: tuple[Trigger, ...] = (Pushes(branches=("*",)), Pushes(tags=("*",)))
"""The events of a job without conditions."""

_BRANCH = re.compile(r"""\$CI_COMMIT_BRANCH\s*==\s*(["'])(?P<name>[\w./-]+)\1""")
_SOURCE = re.compile(r"""\$CI_PIPELINE_SOURCE\s*==\s*(["'])(?P<name>\w+)\1""")
_NAME = re.compile(r"[\w./-]+")
_WORDS = {
    "branches": (EVERY_PUSH[0],),
    "tags": (EVERY_PUSH[1],),
    "merge_requests": (PullRequests(),),
}
_OTHER_WORDS = frozenset(
    {"api", "chat", "external", "external_pull_requests", "pipelines", "pushes", "schedules", "triggers", "web"}
)
_ITSELF = "make it a pipeline of its own"


def events_of(job: Located, workflow: Located, name: str) -> tuple[Trigger, ...]:
    """Return the events for which a job runs. Raises LeftOut if triggers cannot say them."""
    if (when := job.get("when")).value is not None and when.text != "on_success":
        why = f"it runs {when.text}, not after each success: {_ITSELF}, which somebody starts"
        raise LeftOut(when, f"{name}.when", why)
    if (excluded := job.get("except")).value is not None:
        raise LeftOut(excluded, f"{name}.except", "triggers name what is built, not what is not")
    rules, only = job.get("rules"), job.get("only")
    if rules.value is not None and workflow.value is not None:
        raise LeftOut(rules, f"{name}.rules", "it has rules beside those of the workflow")
    if only.value is not None and workflow.value is not None:
        raise LeftOut(only, f"{name}.only", "it has conditions beside the rules of the workflow")
    if rules.value is not None:
        found, key, value = _of_rules(rules), f"{name}.rules", rules
    elif only.value is not None:
        found, key, value = _of_only(only), f"{name}.only", only
    elif workflow.value is not None:
        found, key, value = _of_rules(workflow), "workflow.rules", workflow
    else:
        return EVERY_PUSH
    if not found:
        raise LeftOut(value, key, f"triggers cannot say this condition of {name}: {_ITSELF}")
    return simplest(found)


def covers(events: Iterable[Trigger], others: Iterable[Trigger]) -> bool:
    """Tell whether events contain all of others."""
    simple = set(simplest(events))
    return set(simplest([*simple, *others])) == simple


def simplest(events: Iterable[Trigger]) -> tuple[Trigger, ...]:
    """Return events without those that others contain, each branch and tag by itself, in one order."""
    atoms: dict[Trigger, None] = {}
    for each in events:
        if isinstance(each, Pushes):
            atoms |= dict.fromkeys(Pushes(branches=(branch,)) for branch in each.branches)
            atoms |= dict.fromkeys(Pushes(tags=(tag,)) for tag in each.tags)
        else:
            atoms[each] = None
    branches, tags = EVERY_PUSH
    kept = [
        each
        for each in atoms
        if each in EVERY_PUSH
        or not isinstance(each, Pushes)
        or not ((each.branches and branches in atoms) or (each.tags and tags in atoms))
    ]
    return tuple(
        sorted(kept, key=lambda each: (isinstance(each, PullRequests), isinstance(each, Pushes) and each.tags))
    )


def _of_rules(rules: Located) -> tuple[Trigger, ...] | None:
    """Return the events of rules of which each adds some."""
    found: list[Trigger] = []
    for rule in rules.items():
        condition = rule.get("if").text
        others = {key for key in rule.mapping() if key != "if"} - {"when"}
        when = rule.get("when")
        if condition is None or others or (when.value is not None and when.text != "on_success"):
            return None
        for part in condition.split("||"):
            triggers = _of_condition(part.strip())
            if triggers is None:
                return None
            found += triggers
    return tuple(found) or None


def _of_condition(condition: str) -> tuple[Trigger, ...] | None:
    if condition == "$CI_COMMIT_BRANCH":
        return (EVERY_PUSH[0],)
    if condition == "$CI_COMMIT_TAG":
        return (EVERY_PUSH[1],)
    if (branch := _BRANCH.fullmatch(condition)) is not None:
        return (Pushes(branches=(branch["name"],)),)
    if (source := _SOURCE.fullmatch(condition)) is not None:
        return {"push": EVERY_PUSH, "merge_request_event": (PullRequests(),)}.get(source["name"])
    return None


def _of_only(only: Located) -> tuple[Trigger, ...] | None:
    names = (only.get("refs") if only.mapping() else only).texts()
    if not names or set(only.mapping()) - {"refs"}:
        return None
    found: list[Trigger] = []
    for name in names:
        if name in _OTHER_WORDS or not _NAME.fullmatch(name):
            return None
        # A name is that of a branch or of a tag.
        found += _WORDS.get(name, (Pushes(branches=(name,)), Pushes(tags=(name,))))
    return tuple(found)
