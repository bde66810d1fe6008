"""Builds that a pipeline or job of another system is for: a condition for each event. Pure.

Woodpecker and Drone filter by event, and what a filter of branches or files means depends on the event.
"""

from __future__ import annotations

import re
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.ir.built import EVENTS
from actors.ir.systems.conditions import NotSayable, both, either, of_events
from actors.ir.systems.jobs import label
from actors.ir.systems.omissions import LeftOut, only
from actors.ir.systems.paths import file_glob, tell_of_folders
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.ir.systems.conditions import Condition
    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omissions

Builds: TypeAlias = "Mapping[str, Condition]"
"""The events for which something runs, each with a condition that names no event."""

EVERY: Builds = MappingProxyType({event: {} for event in EVENTS})

_OF_BRANCHES = ("push", "schedule", "manual")
_WITH_FILES = ("push", "pull_request")
_STATUSES = frozenset({"success", "failure"})
_SPECIAL = frozenset("?+[]!\\{}$")
_KEYS = frozenset(
    {"event", "branch", "path", "repo", "ref", "status", "platform", "matrix", "cron", "evaluate", "instance", "target"}
    | {"tag", "environment", "action", "paths"}
)
_REF = re.compile(r"refs/(heads|tags|pull)/(.+)")


@immutable
class Filter:
    """The builds, the ends of what came before, and the cells of the matrix for which something runs."""

    builds: Builds = field(default_factory=lambda: EVERY)
    statuses: frozenset[str] = frozenset({"success"})
    cells: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@immutable
class Words:
    """The words of a system for what filters name.

    ``events`` are its events as those of here. ``tags_pass`` tells that builds of tags pass filters of branches, and
    ``all_pass_schedules`` that all builds but those of schedules pass filters of a schedule's name.
    """

    system: str
    events: Mapping[str, str]
    tags_pass: bool
    all_pass_schedules: bool


class FilterReader:
    """Reads the filters of one file. What differs is added to ``omissions``."""

    def __init__(self, words: Words, omissions: Omissions) -> None:
        self._words = words
        self._omissions = omissions

    def read(self, when: Located, key: str) -> Filter:
        """Return what a filter lets run; a list of filters lets run what any of them does. Raises LeftOut."""
        if when.value is None:
            return Filter()
        found = [self._one(each, key) for each in when.items()]
        if not found:
            return Filter()
        first = found[0]
        for each in found[1:]:
            if (each.statuses, each.cells) != (first.statuses, first.cells):
                why = "its filters differ in status or matrix: write a step for each"
                raise LeftOut(when, key, why)
        try:
            return Filter(any_of(each.builds for each in found), first.statuses, first.cells)
        except NotSayable as error:
            raise LeftOut(when, key, f"`when` cannot say these filters together: {error}") from error

    def _one(self, when: Located, key: str) -> Filter:
        only(when, _KEYS, key)
        builds: Builds = dict(EVERY)
        if (events := when.get("event")).value is not None:
            builds = self._events(events, f"{key}.event")
        if not builds:
            return Filter({})
        _check(when, key)
        if (cron := when.get("cron")).value is not None:
            why = "schedules have no names here: it runs for each schedule of the pipeline"
            self._omissions.lose(cron, f"{key}.cron", why)
            if not self._words.all_pass_schedules:
                builds = {event: each for event, each in builds.items() if event == "schedule"}
        parts = {"branch": self._branches, "ref": self._refs, "repo": self._repositories}
        try:
            for name, narrow in (parts | {"path": self._files, "paths": self._files}).items():
                if (given := when.get(name)).value is not None:
                    builds = all_of(builds, narrow(given, f"{key}.{name}"))
        except NotSayable as error:
            raise LeftOut(when, key, f"`when` cannot say this filter: {error}") from error
        return Filter(builds, self._statuses(when.get("status"), f"{key}.status"), _cells(when.get("matrix"), key))

    def _events(self, given: Located, key: str) -> Builds:
        included, excluded = _lists(given, key)
        found = [] if included else list(EVENTS)
        for each in included:
            if each in self._words.events:
                found.append(self._words.events[each])
            else:
                self._omissions.add(given, key, f"nothing is built for {label(each)} here")
        without = {self._words.events.get(each) for each in excluded}
        return {event: {} for event in EVENTS if event in found and event not in without}

    def _branches(self, given: Located, key: str) -> Builds:
        included, excluded = (self._globs(given, each, key) for each in _lists(given, key))

        def condition(name: str) -> Condition:
            found: dict[str, Any] = {name: included} if included else {}
            return found | ({"not": {name: excluded}} if excluded else {})

        of_branch = condition("branch")
        found = dict.fromkeys(_OF_BRANCHES, of_branch) | {"pull_request": condition("target_branch")}
        return {**found, "tag": {}} if self._words.tags_pass or not included else found

    def _refs(self, given: Located, key: str) -> Builds:
        included, excluded = _lists(given, key)
        if excluded:
            raise LeftOut(given, key, "refs that are excluded have no counterpart here: name the branches or tags")
        found: dict[str, Condition] = {}
        for each in included:
            ref = _REF.fullmatch(each)
            if ref is None:
                raise LeftOut(given, key, f"the ref {label(each)} is not known here")
            if ref[1] == "pull":
                found["pull_request"] = {}
                continue
            names = self._globs(given, [ref[2]], key)
            for event in ("tag",) if ref[1] == "tags" else _OF_BRANCHES:
                name = "tag" if event == "tag" else "branch"
                condition = {} if names == ["*"] else {name: names}
                found[event] = either(found[event], condition) if event in found else condition
        return found

    def _repositories(self, given: Located, key: str) -> Builds:
        included, excluded = _lists(given, key)
        names = included or excluded
        if (included and excluded) or not all(re.fullmatch(r"[\w.-]+/[\w.-]+", each) for each in names):
            raise LeftOut(given, key, "only repositories as OWNER/NAME are known here")
        globs = [f"*{before}{name}{end}" for name in names for before in "/:" for end in ("", ".git")]
        condition: Condition = {"repository": globs}
        return dict.fromkeys(EVENTS, condition if included else {"not": condition})

    def _files(self, given: Located, key: str) -> Builds:
        """Return the builds of changed files, which are asked of pushes and pull requests alone.

        What is excluded tells of builds all of whose files are, not which files are looked for.
        """
        if given.mapping():
            only(given, frozenset({"include", "exclude", "on_empty", "ignore_message"}), key)
            if given.get("ignore_message").value is not None:
                raise LeftOut(given, f"{key}.ignore_message", "a message cannot say here that files are not looked at")
            if given.get("on_empty").value is False:
                raise LeftOut(given, f"{key}.on_empty", "it runs here where nobody knows which files have changed")
        included, excluded = _lists(given, key, more=frozenset({"on_empty", "ignore_message"}))
        found: list[list[str]] = [[], []]
        for place, patterns in enumerate((included, excluded)):
            for each in patterns:
                glob = file_glob(each)
                if glob is None:
                    raise LeftOut(given, key, f"the pattern {label(each)} has no counterpart here")
                tell_of_folders(given, key, glob, self._omissions)
                found[place].append(f"!{glob}" if place else glob)
        conditions: list[Condition] = [{"paths": globs} for globs in found if globs]
        if len(conditions) > 1:
            conditions = [{**conditions[0], "not": {"not": conditions[1]}}]
        return {event: conditions[0] if event in _WITH_FILES and conditions else {} for event in EVENTS}

    def _globs(self, at: Located, patterns: Iterable[str], key: str) -> list[str]:
        """Return globs of names, of which ``*`` matches ``/``, too, here. Raises LeftOut."""
        found = []
        for each in patterns:
            if not each or _SPECIAL & set(each) or label(each) != each:
                raise LeftOut(at, key, f"the pattern {label(each)} has no counterpart here")
            if "*" in each.replace("**", ""):
                self._omissions.add(at, key, f"{each} is kept, and matches names with slashes, too")
            found.append(each.replace("**", "*"))
        return found

    def _statuses(self, given: Located, key: str) -> frozenset[str]:
        if given.value is None:
            return frozenset({"success"})
        included, excluded = _lists(given, key)
        found = (frozenset(included) if included else _STATUSES) - set(excluded)
        if not found or not found <= _STATUSES:
            raise LeftOut(given, key, "only success and failure are known here")
        return found


def _check(when: Located, key: str) -> None:
    """Raise LeftOut for what no filter here can ask."""
    for name in ("evaluate", "instance", "environment", "action", "tag"):
        if (given := when.get(name)).value is not None:
            raise LeftOut(given, f"{key}.{name}", f"`when` has no counterpart of {name}: write it into the command")
    if (platform := when.get("platform")).value is not None and platform.texts() != ("linux/amd64",):
        raise LeftOut(platform, f"{key}.platform", "jobs run on linux/amd64 alone")
    if (target := when.get("target")).value is not None:
        raise LeftOut(target, f"{key}.target", "nothing is promoted here: make it a pipeline that somebody starts")


def _lists(given: Located, key: str, more: frozenset[str] = frozenset()) -> tuple[list[str], list[str]]:
    """Return the names that a filter includes, and those that it excludes. Raises LeftOut."""
    only_known = given.mapping()
    if only_known:
        only(given, frozenset({"include", "exclude"}) | more, key)
    parts = (given.get("include"), given.get("exclude")) if only_known else (given, None)
    found: list[list[str]] = []
    for part in parts:
        texts = [each.scalar for each in part.items()] if part is not None else []
        if None in texts:
            raise LeftOut(given, key, "it is no list of names")
        found.append([each for each in texts if each is not None])
    return found[0], found[1]


def _cells(given: Located, key: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for axis, values in given.mapping().items():
        texts = [each.scalar for each in values.items()]
        if not texts or None in texts:
            raise LeftOut(values, f"{key}.matrix.{axis}", "it is no list of values")
        found[axis] = tuple(str(each) for each in texts)
    return found


def all_of(one: Builds, other: Builds) -> Builds:
    """Return the builds that are among both. Raises NotSayable."""
    found = {}
    for event, condition in one.items():
        if event in other:
            try:
                found[event] = both(condition, other[event])
            except NotSayable as error:
                if str(error) != "it never holds":
                    raise
    return found


def any_of(given: Iterable[Builds]) -> Builds:
    """Return the builds that are among any. Raises NotSayable."""
    found: dict[str, Condition] = {}
    for builds in given:
        for event, condition in builds.items():
            found[event] = either(found[event], condition) if event in found else condition
    return {event: found[event] for event in EVENTS if event in found}


def triggers(builds: Builds) -> tuple[dict[str, Any], Builds]:
    """Return a pipeline's `on` for these builds, and all builds that it covers, which may be more."""
    on: dict[str, Any] = {}
    made: dict[str, Condition] = {}
    for event, names in (("push", {"branch": "branches", "paths": "paths"}), ("tag", {"tag": ""})):
        if event in builds:
            said = set(builds[event]) <= set(names)
            made[event] = builds[event] if said else {}
            on[event] = {names[name]: value for name, value in made[event].items()} or True
    if "tag" in on:
        on["tag"] = list(made["tag"].get("tag", ["*"]))
    if "pull_request" in builds:
        names = {"target_branch": "branches", "paths": "paths"}
        made["pull_request"] = builds["pull_request"] if set(builds["pull_request"]) <= set(names) else {}
        on["pull_request"] = {names[name]: value for name, value in made["pull_request"].items()} or True
    if "manual" in builds:
        made["manual"] = {}
    else:
        on["manual"] = False
    if "schedule" in builds:  # else it is made for those of this pipeline alone, which runs as a whole then
        made["schedule"] = {}
    return on, {event: made[event] for event in EVENTS if event in made}


def condition(builds: Builds, made: Builds) -> Condition:
    """Return the `when` of a job for some of the builds of its pipeline. Raises NotSayable."""
    groups: list[tuple[Condition, list[str]]] = []
    for event in made:
        if event not in builds:
            continue
        rest = {} if builds[event] == made[event] else builds[event]
        group = next((events for each, events in groups if each == rest), None)
        if group is None:
            groups.append((rest, [event]))
        else:
            group.append(event)
    if not groups:
        message = "it runs for no event that is known here"
        raise NotSayable(message)
    if len(groups) == 1 and len(groups[0][1]) == len(made):
        return groups[0][0]
    found: Condition | None = None
    for rest, events in groups:
        one = {**of_events(events), **rest}
        found = one if found is None else either(found, one)
    return found or {}


def disjoint(one: Builds, other: Builds) -> bool:
    """Tell whether it is certain that no build is in both."""
    return not any(event in other and not _apart(condition, other[event]) for event, condition in one.items())


def _apart(one: Condition, other: Condition) -> bool:
    for name in ("branch", "tag", "target_branch"):
        mine, theirs = one.get(name), other.get(name)
        if mine and theirs and not any("*" in each for each in (*mine, *theirs)) and not set(mine) & set(theirs):
            return True
    return False


def within(one: Builds, other: Builds) -> bool:
    """Tell whether it is certain that all builds of one are also in the other."""
    return all(event in other and _implies(condition, other[event]) for event, condition in one.items())


def _implies(one: Condition, other: Condition) -> bool:
    for name, value in other.items():
        mine = one.get(name)
        if mine == value:
            continue
        if not isinstance(mine, list) or name == "paths" or not set(mine) <= set(value):
            return False
    return True
