"""Conditions of the language as plain mappings: both of two, one of two, and not. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from actors.ir.built import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Condition: TypeAlias = "Mapping[str, Any]"
"""The keys of `when`; without any it always holds. Lists are any of."""

ALWAYS: Condition = {"status": "always"}
"""Also after a failure of what a job needs."""

FAILED: Condition = {"status": "failed"}
"""Only after a failure of what a job needs."""

_STATUS, _NOT, _EVENT = "status", "not", "event"
_GLOBS = frozenset("*?")
_MOST_NESTED = 6


class NotSayable(Exception):
    """A condition that `when` cannot say."""


def of_events(events: Iterable[str]) -> Condition:
    """Return the condition of some events."""
    found = set(events)
    return {} if found == set(EVENTS) else {_EVENT: [each for each in EVENTS if each in found]}


NO_PULL_REQUEST: Condition = {_NOT: {_EVENT: ["pull_request"]}}


def of_branches(names: Iterable[str]) -> Condition:
    """Return the condition of builds of branches, which are of no pull request from a branch of the name."""
    return {"branch": list(names), **NO_PULL_REQUEST}


def negated(condition: Condition) -> Condition:
    """Return the opposite of a condition. Raises NotSayable."""
    if not condition:
        message = "it never holds"
        raise NotSayable(message)
    if _STATUS in condition:
        message = "it turns a status round"
        raise NotSayable(message)
    match condition:
        case {"event": events} if len(condition) == 1:
            return of_events(each for each in EVENTS if each not in events)
        case {"fork": bool(fork)} if len(condition) == 1:
            return {"fork": not fork}
        case {"not": inner} if len(condition) == 1:
            return dict(inner)
    return {_NOT: condition}


def both(one: Condition, other: Condition) -> Condition:
    """Return the condition that holds if both do. Raises NotSayable."""
    if _NOT in one and _NOT in other and one[_NOT] != other[_NOT]:
        union = _union(one[_NOT], other[_NOT])
        if union is not None:
            return both({**one, _NOT: union}, {name: value for name, value in other.items() if name != _NOT})
        one, other = _with_events(one), _with_events(other)
    found = dict(one)
    for name, value in other.items():
        if name not in found or found[name] == value:
            found[name] = value
            continue
        if not isinstance(value, list) or (name != _EVENT and any(_GLOBS & set(each) for each in value + found[name])):
            message = f"it asks twice for {name}"
            raise NotSayable(message)
        found[name] = [each for each in found[name] if each in value]
        if not found[name]:
            message = "it never holds"
            raise NotSayable(message)
    _check_depth(found)
    return found


def either(one: Condition, other: Condition) -> Condition:
    """Return the condition that holds if one of two does. Raises NotSayable."""
    if not one or not other:
        return {}
    if _STATUS in one or _STATUS in other:
        message = "it has a status beside an or"
        raise NotSayable(message)
    if (union := _union(one, other)) is not None:
        return of_events(union[_EVENT]) if set(union) == {_EVENT} else union
    for first, second in ((one, other), (other, one)):
        opposite = negated(first)
        if opposite and _NOT not in opposite:
            found = {_NOT: {**opposite, _NOT: second}}
            _check_depth(found)
            return found
    message = "it says or of what `when` can say as and alone"
    raise NotSayable(message)


def without_status(condition: Condition) -> Condition:
    """Return a condition of the build alone."""
    return {name: value for name, value in condition.items() if name != _STATUS}


def _union(one: Condition, other: Condition) -> Condition | None:
    """Return one condition for either of two that differ in one list; None if they differ in more."""
    differing = {name for name in {*one, *other} if one.get(name) != other.get(name)}
    if not differing:
        return one
    if len(differing) > 1 or set(one) != set(other):
        return None
    (name,) = differing
    if not isinstance(one[name], list):
        return None
    return {**one, name: list(dict.fromkeys([*one[name], *other[name]]))}


def _with_events(condition: Condition) -> Condition:
    """Return the same condition with a ``not`` of events as the others."""
    inner = condition[_NOT]
    if set(inner) != {_EVENT}:
        return condition
    rest = {name: value for name, value in condition.items() if name != _NOT}
    return both(rest, negated(inner))


def _check_depth(condition: Condition) -> None:
    depth = 0
    while _NOT in condition:
        condition, depth = condition[_NOT], depth + 1
    if depth > _MOST_NESTED:
        message = "it has too many parts"
        raise NotSayable(message)
