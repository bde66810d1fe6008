"""The jobs of a GitLab file whole: with includes, `extends`, `default` and `!reference`. Pure.

The caller reads the included files. All of it is bounded, since files come from strangers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actors.ir.systems.jobs import label
from actors.ir.systems.located import EMPTY, Located, NotReadable
from actors.ir.systems.omissions import LeftOut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.ir.systems.omissions import Omissions

DEFAULTS = frozenset({"image", "before_script", "after_script", "cache", "services"})
"""Defaults that may also stand at the top of a file."""

GLOBAL_KEYS = frozenset({"stages", "variables", "default", "workflow", "include", "spec", "types", *DEFAULTS})
"""Keys at the top of a file that are no jobs."""

_MAX_INCLUDES = 150
_MAX_EXTENDS = 11
_MAX_REFERENCES = 10
"""The bounds of GitLab itself."""

_MAX_VALUES = 200_000
_SCANNERS = re.compile(
    r"Security/[\w./-]+|Jobs/(SAST|SAST-IaC|Secret-Detection|Dependency-Scanning|Container-Scanning|Code-Quality)"
    r"(\.latest)?\.gitlab-ci\.yml"
)
"""GitLab's templates whose jobs may fail, so that no other job depends on them."""


def with_includes(
    document: Located, included: Callable[[str], Sequence[tuple[str, Located]]], omissions: Omissions
) -> Located:
    """Return a file merged over the local files that it includes.

    ``included`` reads the files of a local path or pattern, by their names. Raises NotReadable, also if a file is not
    local: what is in it may be a gate or a default of any job.
    """
    return _Includes(included, omissions).merged(document, ())


class _Includes:
    def __init__(self, included: Callable[[str], Sequence[tuple[str, Located]]], omissions: Omissions) -> None:
        self._included = included
        self._omissions = omissions
        self._count = 0

    def merged(self, document: Located, path: tuple[str, ...]) -> Located:
        include = document.get("include")
        own = {name: value for name, value in document.mapping().items() if name != "include"}
        below = EMPTY
        for each in include.items():
            for name, found in self._files(each):
                self._count += 1
                if name in path or self._count > _MAX_INCLUDES:
                    why = f"it includes itself: {name}" if name in path else f"more than {_MAX_INCLUDES} includes"
                    raise NotReadable(f"{_place(each)}{why}")
                below = merge(below, self.merged(found, (*path, name)))
        return merge(below, document.with_value(own))

    def _files(self, entry: Located) -> Sequence[tuple[str, Located]]:
        members = entry.mapping()
        local = entry.text if entry.text is not None else entry.get("local").text
        template = entry.get("template").text
        if template is not None and set(members) == {"template"} and _SCANNERS.fullmatch(template):
            self._omissions.add(entry, "include", f"{template} is not read: what it scans is not scanned here")
            return ()
        if local is None or (members and set(members) != {"local"}) or re.match(r"https?://", local):
            kind = next(iter(members), "a remote file")
            why = (
                f"include of {label(kind)}: only local files without conditions are read, and what is in others may be "
                "a gate or a default of any job: copy it into the repository and include it as `local`"
            )
            raise NotReadable(f"{_place(entry)}{why}")
        try:
            return self._included(local)
        except NotReadable as error:
            raise NotReadable(f"{_place(entry)}{error}") from error


def _place(at: Located) -> str:
    return f"line {at.line}: " if at.file is None else f"{at.file}:{at.line}: "


def merge(below: Located, above: Located) -> Located:
    """Return a value merged over another, as GitLab does: mappings merge, all else is replaced."""
    if below.tag is not None or above.tag is not None:
        return above
    if not (isinstance(below.value, dict) and isinstance(above.value, dict)):
        return above
    both = {name: merge(below.get(name), value) for name, value in above.value.items()}
    return above.with_value({**below.value, **both})


class Merging:
    """Returns the jobs of a file whole. The values of all of them are counted."""

    def __init__(self, document: Located) -> None:
        self._document = document
        self._extended: dict[str, Located] = {}
        self._values = 0
        default = dict(document.get("default").mapping())
        self._default = {**default, **{name: document.get(name) for name in DEFAULTS if name in document.mapping()}}

    def job(self, name: str) -> Located:
        """Return a job with what it extends, the defaults and what it refers to.

        Raises LeftOut and NotReadable.
        """
        job = self._document.get(name)
        if not job.mapping():
            raise LeftOut(job, name, "it is neither a job nor a key that is known here")
        extended = self._extend(name, ())
        if extended is None:
            why = "this names no job of the file, leads back to itself, or through more than eleven others"
            raise LeftOut(job.get("extends"), f"{name}.extends", why)
        whole = extended.with_value({**self._default, **extended.mapping()})
        return self._referred(name, whole, 0)

    def _extend(self, name: str, path: tuple[str, ...]) -> Located | None:
        """Return a job merged over what it extends; None if that is not there."""
        if name in self._extended:
            return self._extended[name]
        job = self._document.get(name)
        names = job.get("extends").texts()
        if names is None or len(path) >= _MAX_EXTENDS or name in path or not job.mapping():
            return None
        merged = EMPTY
        for each in names:
            parent = self._extend(each, (*path, name))
            if parent is None:
                return None
            merged = merge(merged, parent)
            self._count(_size(merged))
        own = {member: value for member, value in job.mapping().items() if member != "extends"}
        merged = merge(merged, job.with_value(own))
        self._count(len(merged.mapping()))
        self._extended[name] = merged
        return merged

    def _referred(self, name: str, value: Located, depth: int) -> Located:
        """Return a value with what its tags `!reference` refer to."""
        self._count(1)
        if value.tag == "!reference":
            path = value.texts()
            found = self._at(path) if path else None
            if found is None or depth >= _MAX_REFERENCES:
                why = f"!reference [{label(', '.join(path or ()))}] leads nowhere, or through more than ten others"
                raise LeftOut(value, name, why)
            return self._referred(name, found, depth + 1)
        if isinstance(value.value, tuple):
            items: list[Located] = []
            for each in value.value:
                referred = self._referred(name, each, depth)
                items += referred.value if each.tag and isinstance(referred.value, tuple) else (referred,)
            return Located(value.line, tuple(items), value.tag, value.file)
        if value.mapping():
            members = {key: self._referred(name, each, depth) for key, each in value.mapping().items()}
            return Located(value.line, members, value.tag, value.file)
        return value

    def _at(self, path: Sequence[str]) -> Located | None:
        first, *others = path
        found = self._extend(first, ()) if first not in GLOBAL_KEYS else self._document.get(first)
        for each in others:
            found = None if found is None else found.mapping().get(each)
        return found

    def _count(self, more: int) -> None:
        self._values += more
        if self._values > _MAX_VALUES:
            message = "`extends` and !reference expand to too much"
            raise NotReadable(message)


def _size(value: Located) -> int:
    members: Mapping[str, Located] = value.mapping()
    return len(members) + sum(len(each.mapping()) for each in members.values())
