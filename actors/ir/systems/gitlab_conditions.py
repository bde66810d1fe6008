"""Conditions of GitLab's jobs as events and files, where `on` and `when` can say the same. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.ir.systems.conditions import ALWAYS, FAILED, both, of_branches, of_events
from actors.ir.systems.jobs import label
from actors.ir.systems.omissions import LeftOut
from actors.ir.systems.paths import file_glob, tell_of_folders
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.ir.systems.conditions import Condition
    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omissions

_EVERY = frozenset({"*"})
_BRANCH = re.compile(r"""\$CI_COMMIT_BRANCH\s*==\s*(["'])(?P<name>[\w./-]+)\1""")
_SOURCE = re.compile(r"""\$CI_PIPELINE_SOURCE\s*==\s*(["'])(?P<name>\w+)\1""")
_NAME = re.compile(r"[\w./-]+")
_OTHER_WORDS = frozenset(
    {"api", "chat", "external", "external_pull_requests", "pipelines", "pushes", "schedules", "triggers", "web"}
)
_ITSELF = "make it a pipeline of its own"


@immutable
class Events:
    """The builds of a job: branches, all tags, merge requests, and files of which one has changed."""

    branches: frozenset[str] = frozenset()
    tags: bool = False
    merge_requests: bool = False
    paths: tuple[str, ...] = ()
    always: bool = False
    """It runs also after a failure."""

    failed: bool = False
    """It runs after a failure alone."""

    @property
    def none(self) -> bool:
        """True if there are no such events."""
        return not (self.branches or self.tags or self.merge_requests)

    def covers(self, other: Events) -> bool:
        """Tell whether these are all of others, and perhaps more."""
        same_files = not self.paths or self.paths == other.paths
        branches = self.branches == _EVERY or other.branches <= self.branches
        return same_files and branches and self.tags >= other.tags and self.merge_requests >= other.merge_requests

    def union(self, other: Events) -> Events:
        """Return the events of either, of any files."""
        branches = self.branches | other.branches
        return Events(
            _EVERY if branches & _EVERY else branches,
            self.tags or other.tags,
            self.merge_requests or other.merge_requests,
        )

    def within(self, other: Events) -> Events:
        """Return those of these events that are among others."""
        mine, theirs = self.branches, other.branches
        branches = theirs if mine == _EVERY else mine if theirs == _EVERY else mine & theirs
        return replace(
            self,
            branches=branches,
            tags=self.tags and other.tags,
            merge_requests=self.merge_requests and other.merge_requests,
        )

    def without(self, other: Events) -> Events:
        """Return those of these events that are not among others, of which each kind is whole."""
        return replace(
            self,
            branches=frozenset() if other.branches == _EVERY else self.branches - other.branches,
            tags=self.tags and not other.tags,
            merge_requests=self.merge_requests and not other.merge_requests,
        )

    @property
    def on(self) -> dict[str, Any]:
        """The triggers of a pipeline for these events."""
        found: dict[str, Any] = {}
        if self.branches:
            found["push"] = True if self.branches == _EVERY else {"branches": sorted(self.branches)}
        if self.tags:
            found["tag"] = ["*"]
        if self.merge_requests:
            found["pull_request"] = True
        return found

    def when(self, pipeline: Events) -> Condition:
        """Return the condition of a job for these events, in a pipeline for others as well."""
        found: Condition = {} if replace(self, paths=(), always=False, failed=False) == pipeline else self._of_events()
        if self.paths:
            found = both(found, {"paths": list(self.paths)})
        return {**found, **FAILED} if self.failed else {**found, **ALWAYS} if self.always else found

    def _of_events(self) -> Condition:
        names = sorted(self.branches)
        if not names:
            if not self.merge_requests:
                return {"tag": ["*"]}
            return of_events(["pull_request", *(["tag"] if self.tags else [])])
        kinds = ["push", "schedule", "manual"]
        events = [*kinds, *(["tag"] if self.tags else []), *(["pull_request"] if self.merge_requests else [])]
        if self.branches == _EVERY:
            return of_events(events) if self.tags or self.merge_requests else of_branches(["*"])
        if not self.tags and not self.merge_requests:
            return of_branches(names)
        return {**of_events(events), "not": {**of_events(kinds), "not": {"branch": names}}}


EVERY_PUSH = Events(_EVERY, tags=True)
"""The events of a job without conditions."""

_MERGE_REQUESTS = Events(merge_requests=True)
_ALL = Events(_EVERY, tags=True, merge_requests=True)
_WORDS = {"branches": Events(_EVERY), "tags": Events(tags=True), "merge_requests": _MERGE_REQUESTS}


def events_of(job: Located, workflow: Located, name: str, omissions: Omissions) -> Events:
    """Return the events for which a job runs. Raises LeftOut if `when` cannot say them."""
    if (when := job.get("when")).value is not None and when.text not in {"on_success", "always", "on_failure"}:
        why = f"it runs {label(when.text or '?')}, not after each success: {_ITSELF}, which somebody starts"
        raise LeftOut(when, f"{name}.when", why)
    reader = _Reader(name, omissions)
    rules, only, excluded = job.get("rules"), job.get("only"), job.get("except")
    whole = EVERY_PUSH
    if workflow.value is not None:
        whole = reader.of_rules(workflow, "workflow.rules")
        if whole.paths or whole.always:
            raise LeftOut(workflow, "workflow.rules", f"`when` cannot say this condition of {name}")
    if rules.value is not None:
        found = reader.of_rules(rules, f"{name}.rules")
    elif only.value is not None:
        found = reader.of_only(only)
    else:
        found = whole
    if excluded.value is not None:
        found = reader.without(found, excluded)
    if workflow.value is not None:
        found = found.within(whole)
    if found.none:
        raise LeftOut(job, name, "it runs for no event that is known here")
    return replace(found, always=found.always or when.text == "always", failed=when.text == "on_failure")


def union_of(events: Iterable[Events]) -> Events:
    """Return the events of any of several jobs."""
    found = Events()
    for each in events:
        found = found.union(each)
    return found


class _Reader:
    def __init__(self, name: str, omissions: Omissions) -> None:
        self._name = name
        self._omissions = omissions

    def _unknown(self, at: Located, key: str) -> LeftOut:
        return LeftOut(at, key, f"`when` cannot say this condition of {self._name}: {_ITSELF}")

    def of_rules(self, rules: Located, key: str) -> Events:
        """Return the events of rules, of which the first that matches counts."""
        found, left = Events(), _ALL
        given: list[tuple[tuple[str, ...], bool]] = []
        for rule in rules.items():
            if not rule.mapping() or set(rule.mapping()) - {"if", "when", "changes"}:
                raise self._unknown(rules, key)
            when = rule.get("when").text if rule.get("when").value is not None else "on_success"
            matched = _ALL if rule.get("if").value is None else _of_condition(rule.get("if").text or "")
            if matched is None or when not in {"on_success", "always", "never"}:
                raise self._unknown(rules, key)
            paths = self._paths(rule.get("changes"), f"{key}.changes") if rule.get("changes").value is not None else ()
            if when == "never":
                if paths or _is_some(matched):
                    raise self._unknown(rules, key)
            else:
                found = found.union(matched.within(left))
                given.append((paths, when == "always"))
            if paths and len(rules.items()) > 1 and rule is not rules.items()[-1]:
                raise self._unknown(rules, key)
            left = left.without(matched)
        if len(set(given)) > 1 or found.none:
            raise self._unknown(rules, key)
        return replace(found, paths=given[0][0], always=given[0][1])

    def of_only(self, only: Located) -> Events:
        key = f"{self._name}.only"
        if set(only.mapping()) - {"refs", "changes"}:
            raise self._unknown(only, key)
        refs = only.get("refs") if only.mapping() else only
        found = EVERY_PUSH if refs.value is None and only.mapping() else self._of_refs(refs, key)
        if (changes := only.get("changes")).value is not None:
            return replace(found, paths=self._paths(changes, f"{key}.changes"))
        return found

    def without(self, events: Events, excluded: Located) -> Events:
        """Return events without those of ``except``, which are whole kinds."""
        key = f"{self._name}.except"
        refs = excluded.get("refs") if excluded.mapping() else excluded
        if set(excluded.mapping()) - {"refs"}:
            raise self._unknown(excluded, key)
        for name in refs.texts() or ("?",):
            if name not in _WORDS:
                raise self._unknown(excluded, key)
            events = events.without(_WORDS[name])
        return events

    def _of_refs(self, refs: Located, key: str) -> Events:
        names = refs.texts()
        if not names:
            raise self._unknown(refs, key)
        found = Events()
        for name in names:
            if name in _OTHER_WORDS or not _NAME.fullmatch(name):
                raise self._unknown(refs, key)
            if name not in _WORDS:
                why = f"it runs for the branch {name}, and not for a tag of this name"
                self._omissions.add(refs, key, why)
            found = found.union(_WORDS.get(name, Events(frozenset({name}))))
        return found

    def _paths(self, changes: Located, key: str) -> tuple[str, ...]:
        given = changes.get("paths") if changes.mapping() else changes
        if not given.items() or set(changes.mapping()) - {"paths"}:
            raise self._unknown(changes, key)
        found = []
        for each in given.items():
            glob = file_glob(each.text or "")
            if glob is None:
                raise self._unknown(changes, key)
            tell_of_folders(each, key, glob, self._omissions)
            found.append(glob)
        return tuple(found)


def _is_some(events: Events) -> bool:
    """Tell whether events are of branches by name, without which those of others cannot be said."""
    return bool(events.branches) and events.branches != _EVERY


def _of_condition(condition: str) -> Events | None:
    found = Events()
    for part in condition.split("||"):
        events = _of_one(part.strip())
        if events is None:
            return None
        found = found.union(events)
    return found


def _of_one(condition: str) -> Events | None:
    if condition == "$CI_COMMIT_BRANCH":
        return Events(_EVERY)
    if condition == "$CI_COMMIT_TAG":
        return Events(tags=True)
    if condition == "$CI_MERGE_REQUEST_IID":
        return _MERGE_REQUESTS
    if (branch := _BRANCH.fullmatch(condition)) is not None:
        return Events(frozenset({branch["name"]}))
    if (source := _SOURCE.fullmatch(condition)) is not None:
        return {"push": EVERY_PUSH, "merge_request_event": _MERGE_REQUESTS}.get(source["name"])
    return None
