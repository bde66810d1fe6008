"""The matrix of a GitHub job: its combinations, with what is included and excluded. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir.systems.jobs import MAX_CELLS, matrix
from actors.ir.systems.omissions import LeftOut, only

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omissions

_STRATEGY = frozenset({"matrix", "fail-fast", "max-parallel"})
"""A failure stops no other step here, but the build fails as it does there."""


def cells_of(key: str, strategy: Located, omissions: Omissions) -> list[dict[str, str]]:
    """Return the values of each combination of a matrix. Raises LeftOut."""
    only(strategy, _STRATEGY, f"{key}.strategy")
    if (most := strategy.get("max-parallel")).value is not None:
        why = "as many run at a time as the service has VMs: [jobs] of the configuration bounds them"
        omissions.add(most, f"{key}.strategy.max-parallel", why)
    given = strategy.get("matrix")
    if given.value is None:
        return [{}]
    axes = {name: axis for name, axis in given.mapping().items() if name not in {"include", "exclude"}}
    cells = matrix(axes, _value, lists=True) if axes else iter(())
    included, excluded = (_combinations(given.get(name)) for name in ("include", "exclude"))
    found = None if cells is None or included is None or excluded is None else list(cells)
    if found is not None:
        found = [each for each in found if not any(other.items() <= each.items() for other in excluded or ())]
        found = _with_included(found, included or [])
    if not found or len(found) > MAX_CELLS:
        why = "only lists of plain values are known here, at most 256 cells: a job that `generates` others makes more"
        raise LeftOut(given, f"{key}.strategy.matrix", why)
    return found


def _combinations(given: Located) -> list[dict[str, str]] | None:
    """Return combinations that a matrix includes or excludes; None if they are no plain values."""
    found = []
    for each in given.items():
        values = {name: _value(value) for name, value in each.mapping().items()}
        if not values or None in values.values():
            return None
        found.append({name: str(value) for name, value in values.items()})
    return found


def _with_included(cells: Sequence[Mapping[str, str]], included: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return cells with what is included, as GitHub does.

    It is added to each cell of which it changes no value of the axes, and is a cell of its own if there is none.
    """
    extended = [dict(each) for each in cells]
    alone = []
    for each in included[: MAX_CELLS + 1]:
        fitting = [
            place
            for place, cell in enumerate(cells)
            if all(cell.get(name, value) == value for name, value in each.items())
        ]
        for place in fitting:
            extended[place] |= each
        if not fitting:
            alone.append(dict(each))
    return [*extended, *alone]


def _value(given: Located) -> str | None:
    text = given.number_or_text
    return None if text is None or "${{" in text else text
