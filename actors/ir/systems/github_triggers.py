"""Events of GitHub's workflows as `on`, and as a condition of all jobs. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from actors.ir.systems.conditions import NotSayable, both
from actors.ir.systems.jobs import label
from actors.ir.systems.paths import file_glob, tell_of_folders

if TYPE_CHECKING:
    from actors.ir.systems.conditions import Condition
    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omissions

_TYPES = ("opened", "synchronize", "reopened", "closed", "ready_for_review")
_SPECIAL = frozenset("?+[]!\\")
_CRON = re.compile(r"[0-9*,/-]+( [0-9*,/-]+){4}")
_INPUT = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_OF_INPUTS = frozenset({"description", "required", "default", "type", "options"})
_BY_HAND = "workflow_dispatch"
_OF_PATHS = ("paths", "paths-ignore")
_OF_PUSHES = frozenset({"branches", "branches-ignore", "tags", *_OF_PATHS})
_OF_PULL_REQUESTS = frozenset({"branches", "branches-ignore", "types", *_OF_PATHS})


class _Lost(Exception):
    """A filter has no counterpart, and without it more would be built."""

    def __init__(self, at: Located, key: str, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.key = key
        self.what = what


class Events:
    """The events of a workflow: ``on``, and ``when``, which all of its jobs get besides their own."""

    def __init__(self, on: Located, omissions: Omissions) -> None:
        self.on: dict[str, Any] = {}
        self.when: Condition = {}
        self._omissions = omissions
        events = on.mapping() or {each.text or "?": each.with_value(None) for each in on.items()}
        for event, filters in events.items():
            self._add(event, filters)
        inputs = on.get(_BY_HAND, "inputs").mapping()
        found = {name: self._input(f"on.{_BY_HAND}.inputs.{name}", name, given) for name, given in inputs.items()}
        if None in found.values():
            self.on["manual"] = False
        elif found:
            self.on["manual"] = {"inputs": found}

    def _input(self, key: str, name: str, given: Located) -> dict[str, Any] | None:
        """Return an input of builds that people ask for; None if it has no counterpart, which is told."""
        kind = given.get("type").text or "string"
        choices = [each.number_or_text for each in given.get("options").items()]
        known = _INPUT.fullmatch(name) and set(given.mapping()) <= _OF_INPUTS and None not in choices
        if not known or kind not in {"string", "boolean", "number", "choice"}:
            why = "nobody may ask for a build: without this input, which has no counterpart, it would be another one"
            self._omissions.lose(given, key, why)
            return None
        found: dict[str, Any] = {"choice": choices} if kind == "choice" else {kind: True} if kind != "string" else {}
        if (default := given.get("default")).value is not None:
            found["default"] = default.number_or_text
        if given.get("required").value is True:
            found["required"] = True
        if text := label(given.get("description").text or ""):
            found["help"] = text
        return found

    def _add(self, event: str, filters: Located) -> None:
        if event == "schedule":
            for each in filters.items():
                cron = label(each.get("cron").text or "?").replace("'", "?")
                if _CRON.fullmatch(cron):
                    self.on.setdefault("schedule", []).append({"cron": cron})
                    continue
                why = f"these times are not known here: `ci-daemon schedule add ORG PIPELINE '{cron}'`"
                self._omissions.add(each, "on.schedule", why)
            return
        if event not in {"push", "pull_request"}:
            if event != _BY_HAND:
                self._omissions.add(filters, f"on.{label(event)}", "nothing is built for this event here")
            return
        what = "pushes" if event == "push" else "pull requests"
        try:
            if event == "push":
                self._pushes(filters)
            else:
                self._pull_requests(filters)
        except _Lost as lost:
            why = f"{what} trigger nothing: without {lost.what} more would be built than there"
            self._omissions.add(lost.at, lost.key, why)

    def _pushes(self, filters: Located) -> None:
        key = "on.push"
        _check(filters, _OF_PUSHES, key)
        paths = _paths(filters, key, self._omissions)
        named = [name for name in ("branches", "branches-ignore", "tags") if filters.get(name).value is not None]
        of_branches: dict[str, Any] = {}
        tags = ["*"] if not named else []
        if not named or named != ["tags"]:
            names = self._names(filters, key, "branch", "push")
            if named and names is None:
                of_branches = {}
            else:
                of_branches = {"branches": names} if names else {}
                of_branches |= {"paths": paths} if paths else {}
                self.on["push"] = of_branches or True
        if "tags" in named:
            tags, excluded = _globs(filters.get("tags"), f"{key}.tags", self._omissions)
            if excluded:
                raise _Lost(filters.get("tags"), f"{key}.tags", f"!{excluded[0]}, which has no counterpart,")
        if tags:
            self.on["tag"] = tags

    def _pull_requests(self, filters: Located) -> None:
        key = "on.pull_request"
        _check(filters, _OF_PULL_REQUESTS, key)
        paths = _paths(filters, key, self._omissions)
        types = []
        for each in filters.get("types").items():
            if each.text in _TYPES:
                types.append(each.text)
            else:
                told = f"{label(each.scalar or '?')} triggers nothing here"
                self._omissions.add(each, f"{key}.types", told)
        names = self._names(filters, key, "target_branch", "pull_request")
        if (filters.get("types").items() and not types) or names is None:
            return
        why = "the head is built as its author pushed it, not merged into its target as there"
        self._omissions.add(filters, key, why)
        found: dict[str, Any] = {"branches": names, "types": types, "paths": paths}
        self.on["pull_request"] = {name: value for name, value in found.items() if value} or True

    def _names(self, filters: Located, key: str, of: str, event: str) -> list[str] | None:
        """Return the globs of branches, of which none is every branch; None if no branch is left.

        What is excluded gets into the condition of all jobs.
        """
        given, ignored = filters.get("branches"), filters.get("branches-ignore")
        names, excluded = _globs(given, f"{key}.branches", self._omissions)
        more, odd = _globs(ignored, f"{key}.branches-ignore", self._omissions, excludes=True)
        if odd or (given.items() and not names and excluded):
            raise _Lost(given if odd == [] else ignored, f"{key}.branches", "what is excluded")
        excluded += more
        if excluded:
            at = given if given.value is not None else ignored
            try:
                self.when = both(self.when, {"not": {"event": [event], of: excluded}})
            except NotSayable as error:
                raise _Lost(
                    at, f"{key}.branches", f"!{excluded[0]}, which `when` cannot say besides the others,"
                ) from error
            why = f"builds of {label(', '.join(excluded))} are made, too, and all of their jobs are skipped"
            self._omissions.add(at, f"{key}.branches", why)
        if given.items() and not names:
            return None
        return [] if names == ["*"] else names


def _check(filters: Located, known: frozenset[str], key: str) -> None:
    lost = set(filters.mapping()) - known
    if lost or (filters.value is not None and not filters.mapping()):
        raise _Lost(filters, key, ", ".join(sorted(map(label, lost))) or "its filter")


def _globs(patterns: Located, key: str, omissions: Omissions, *, excludes: bool = False) -> tuple[list[str], list[str]]:
    """Return patterns of names, and those that are excluded after them.

    Here ``*`` matches ``/`` too, as ``**`` does there. All of ``excludes`` exclude. Raises _Lost if one of
    those is not known.
    """
    found: list[str] = []
    excluded: list[str] = []
    for each in patterns.items():
        given = each.number_or_text or ""
        pattern = given.removeprefix("!")
        is_excluded = excludes or given.startswith("!")
        unknown = not pattern or bool(_SPECIAL & set(pattern)) or label(pattern) != pattern
        if (unknown and is_excluded) or (excluded and not given.startswith("!")):
            raise _Lost(each, key, f"{label(given)}, which has no counterpart,")
        if unknown:
            omissions.add(each, key, f"the pattern {label(pattern)} has no counterpart here: it triggers nothing")
            continue
        if "*" in pattern.replace("**", ""):
            if is_excluded:
                raise _Lost(each, key, f"{label(given)}, whose * would match slashes,")
            names = "names with slashes" if pattern == "*" else "names with more slashes"
            omissions.add(each, key, f"{pattern} is kept, and matches {names}, too")
        (excluded if given.startswith("!") else found).append(pattern.replace("**", "*"))
    return found, excluded


def _paths(filters: Located, key: str, omissions: Omissions) -> list[str]:
    """Return globs of files. Raises _Lost if they mean something else here."""
    found: list[str] = []
    excludes = False
    for name in _OF_PATHS:
        for each in filters.get(name).items():
            given = each.number_or_text or ""
            is_excluded = name == "paths-ignore" or given.startswith("!")
            glob = file_glob(given.removeprefix("!"))
            if glob is None or (excludes and not is_excluded) or (is_excluded and name == "paths" and not found):
                raise _Lost(each, f"{key}.{name}", f"{label(given)}, which has no counterpart,")
            excludes |= is_excluded
            tell_of_folders(each, f"{key}.{name}", glob, omissions)
            found.append(f"!{glob}" if is_excluded else glob)
    return found
