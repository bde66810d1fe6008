"""Conditions of GitLab's jobs as triggers, where they can say the same. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_daemon.draft import PullRequests, Pushes

if TYPE_CHECKING:
    from ci_daemon.convert.located import Located
    from ci_daemon.convert.omissions import Omissions
    from ci_daemon.draft.model import Trigger

__all__ = ["EVERY_PUSH", "triggers_of"]

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
_OTHER_WORDS = frozenset({"api", "chat", "external", "pipelines", "pushes", "schedules", "triggers", "web"})


def triggers_of(job: Located, workflow: Located, omissions: Omissions, name: str) -> tuple[Trigger, ...] | None:
    """Return the events for which a job runs; None if triggers cannot say them, which is told."""
    if (when := job.get("when")).text not in {None, "on_success"}:
        omissions.add(
            when,
            f"{name}.when",
            f"the whole job is left out: it runs {when.text}, not after each success",
        )
        return None
    if (excluded := job.get("except")).value is not None:
        omissions.add(
            excluded,
            f"{name}.except",
            "the whole job is left out: triggers name what is built, not what is not",
        )
        return None
    rules, only = job.get("rules"), job.get("only")
    if rules.value is not None:
        found = _of_rules(rules)
        key, value = f"{name}.rules", rules
    elif only.value is not None:
        found = _of_only(only)
        key, value = f"{name}.only", only
    elif workflow.value is not None:
        found = _of_rules(workflow)
        key, value = "workflow.rules", workflow
    else:
        return EVERY_PUSH
    if found is None or (rules.value is not None and workflow.value is not None):
        omissions.add(
            value,
            key,
            f"the whole job {name} is left out: triggers cannot say this condition",
        )
        return None
    return found


def _of_rules(rules: Located) -> tuple[Trigger, ...] | None:
    """Return the events of rules of which each adds some."""
    found: list[Trigger] = []
    for rule in rules.items():
        condition = rule.get("if").text
        others = {key for key in rule.mapping() if key != "if"} - {"when"}
        if condition is None or others or rule.get("when").text not in {None, "on_success"}:
            return None
        for part in condition.split("||"):
            triggers = _of_condition(part.strip())
            if triggers is None:
                return None
            found += triggers
    return tuple(dict.fromkeys(found)) or None


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
    return tuple(dict.fromkeys(found))
