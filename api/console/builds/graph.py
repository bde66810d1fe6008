"""Layout of a build's graph in layers, left to right; pure."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

NODE_WIDTH, NODE_HEIGHT = 192, 40
_GAP_X, _GAP_Y = 56, 12
_MARGIN = 12
_SWEEPS = 4
_FOLD_AT = 4
_MOST_BENDS = 1000


@immutable
class GraphNode:
    """A job of the graph.

    ``seconds`` is how long it ran, 0 if it has not; ``matrix`` is the job that it is a cell of.
    """

    position: int
    name: str
    seconds: float = 0.0
    matrix: str = ""


@immutable
class GraphEdge:
    """The job at ``to`` waits for the one at ``start``, and with ``disk`` also starts from its disk."""

    start: int
    to: int
    disk: bool = False


@immutable
class PlacedNode:
    """A rectangle for one job, or for several that are folded; ``x`` and ``y`` are its upper left corner.

    ``matrix`` is the job whose cells it stands for, empty for others.
    """

    positions: tuple[int, ...]
    name: str
    x: int
    y: float
    critical: bool
    matrix: str = ""

    @property
    def folded(self) -> bool:
        """True if it stands for several jobs."""
        return len(self.positions) > 1


@immutable
class Line:
    """The path of an edge as SVG draws it."""

    path: str
    disk: bool
    critical: bool


@immutable
class GraphLayout:
    """A graph with places; ``layers`` counts its columns."""

    nodes: tuple[PlacedNode, ...]
    lines: tuple[Line, ...]
    width: int
    height: float
    layers: int

    @property
    def strokes(self) -> tuple[tuple[str, str], ...]:
        """The lines as one path for each kind, with its classes; browsers draw few paths faster than many."""
        kinds: dict[str, list[str]] = {}
        for line in sorted(self.lines, key=lambda line: line.critical):
            classes = " ".join(("disk",) * line.disk + ("critical",) * line.critical)
            kinds.setdefault(classes, []).append(line.path)
        return tuple((classes, "".join(paths)) for classes, paths in kinds.items())


def critical_path(nodes: Sequence[GraphNode], edges: Iterable[GraphEdge]) -> frozenset[int]:
    """Return the positions of the jobs on the path that took longest; empty if none has run.

    Nodes come in topological order, as jobs of a build do.
    """
    before: dict[int, list[int]] = defaultdict(list)
    for edge in edges:
        before[edge.to].append(edge.start)
    until: dict[int, float] = {}
    via: dict[int, int | None] = {}
    for node in nodes:
        last = max(before[node.position], key=lambda position: until[position], default=None)
        via[node.position] = last
        until[node.position] = node.seconds + (0.0 if last is None else until[last])
    longest = max(until, key=lambda position: until[position], default=None)
    if longest is None or until[longest] <= 0:
        return frozenset()
    path = set()
    while longest is not None:
        path.add(longest)
        longest = via[longest]
    return frozenset(path)


def lay_out(
    nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], *, fold: bool = False, opened: Collection[str] = ()
) -> GraphLayout:
    """Place every job in the layer after its last prerequisite, near what it waits for.

    An edge that others imply is left out. With ``fold``, jobs that wait for the same jobs, and for which the same jobs
    wait, share a node if they are at least four. The cells of a matrix share one anyway,
    unless it is ``opened``. Nodes come in topological order.
    """
    critical = critical_path(nodes, edges)
    groups = _grouped(nodes, edges, opened, fold=fold)
    group_of = {position: number for number, group in enumerate(groups) for position in group}
    before: dict[int, set[int]] = defaultdict(set)
    after: dict[int, set[int]] = defaultdict(set)
    kinds: dict[tuple[int, int], bool] = {}
    for edge in edges:
        start, to = group_of[edge.start], group_of[edge.to]
        kinds[start, to] = kinds.get((start, to), False) or edge.disk
    for start, to in sorted(_implied(kinds, len(groups))):
        del kinds[start, to]
    for start, to in kinds:
        before[to].add(start)
        after[start].add(to)
    layers = _layers(len(groups), before)
    ways = _ways(kinds, layers, before, after)
    rows = _rows(layers, before, after)
    by_position = {node.position: node for node in nodes}
    matrices = [by_position[group[0]].matrix if len(group) > 1 else "" for group in groups]
    placed = [
        PlacedNode(
            positions=tuple(group),
            name=matrices[number] or _name_of([by_position[position].name for position in group]),
            x=_MARGIN + layers[number] * (NODE_WIDTH + _GAP_X),
            y=_MARGIN + rows[number] * (NODE_HEIGHT + _GAP_Y),
            critical=not critical.isdisjoint(group),
            matrix=matrices[number],
        )
        for number, group in enumerate(groups)
    ]
    lines = tuple(
        _line(placed[start], placed[to], [_bend(layers[each], rows[each]) for each in ways[start, to]], disk=disk)
        for (start, to), disk in kinds.items()
    )
    deepest = max(layers, default=-1) + 1  # the bends are in layers between nodes
    return GraphLayout(
        nodes=tuple(placed),
        lines=lines,
        width=2 * _MARGIN + max(0, deepest * (NODE_WIDTH + _GAP_X) - _GAP_X),
        height=2 * _MARGIN + (max(rows, default=-1.0) + 1) * (NODE_HEIGHT + _GAP_Y) - _GAP_Y * bool(groups),
        layers=deepest,
    )


def _grouped(
    nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], opened: Collection[str], *, fold: bool
) -> list[list[int]]:
    """Return the jobs that share a node, by the place of their first; still in topological order."""
    cells: dict[str, list[int]] = defaultdict(list)
    for node in nodes:
        if node.matrix and node.matrix not in opened:
            cells[node.matrix].append(node.position)
    others = [node for node in nodes if not node.matrix]
    opened_cells = [[node.position] for node in nodes if node.matrix in opened]
    alone = _folded(others, edges) if fold else [[node.position] for node in others]
    return sorted([*cells.values(), *opened_cells, *alone])


def _folded(nodes: Sequence[GraphNode], edges: Sequence[GraphEdge]) -> list[list[int]]:
    """Return groups of interchangeable jobs."""
    before: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    after: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for edge in edges:
        before[edge.to].append((edge.start, edge.disk))
        after[edge.start].append((edge.to, edge.disk))
    alike: dict[object, list[int]] = {}
    for node in nodes:
        key = tuple(sorted(before[node.position])), tuple(sorted(after[node.position]))
        alike.setdefault(key, []).append(node.position)
    groups = []
    for group in alike.values():
        groups.extend([group] if len(group) >= _FOLD_AT else [[position] for position in group])
    return groups


def _implied(edges: Mapping[tuple[int, int], bool], count: int) -> set[tuple[int, int]]:
    """Return the edges that others imply, but for those that share a disk."""
    before: dict[int, set[int]] = defaultdict(set)
    for start, to in edges:
        before[to].add(start)
    above: list[int] = []  # of each node all that it waits for, as bits
    implied = set()
    for to in range(count):
        of_others = 0
        for start in before[to]:
            of_others |= above[start]
        implied |= {(start, to) for start in before[to] if of_others >> start & 1 and not edges[start, to]}
        above.append(of_others | sum(1 << start for start in before[to]))
    return implied


def _layers(count: int, before: Mapping[int, set[int]]) -> list[int]:
    """Return the layer of each node, one more than the deepest of those before it."""
    layers: list[int] = []
    for number in range(count):
        layers.append(1 + max((layers[each] for each in before.get(number, ())), default=-1))
    return layers


def _ways(
    edges: Iterable[tuple[int, int]], layers: list[int], before: dict[int, set[int]], after: dict[int, set[int]]
) -> dict[tuple[int, int], list[int]]:
    """Return for each edge its bends, one in each layer that it crosses, where it takes a row.

    The bends are added to ``layers``, ``before`` and ``after``, as if they were nodes. If they were too many, edges are
    drawn straight.
    """
    ways: dict[tuple[int, int], list[int]] = {}
    crossed = sum(layers[to] - layers[start] - 1 for start, to in edges)
    for start, to in edges:
        way: list[int] = []
        for layer in range(layers[start] + 1, layers[to] if crossed <= _MOST_BENDS else 0):
            way.append(len(layers))
            layers.append(layer)
        ways[start, to] = way
        if way:
            before[to].discard(start)
            after[start].discard(to)
            for first, second in pairwise((start, *way, to)):
                before[second].add(first)
                after[first].add(second)
    return ways


def _rows(layers: Sequence[int], before: Mapping[int, set[int]], after: Mapping[int, set[int]]) -> list[float]:
    """Return the row of each node: in each layer as near as possible to the mean of its neighbours."""
    by_layer: dict[int, list[int]] = defaultdict(list)
    for number, layer in enumerate(layers):
        by_layer[layer].append(number)
    rows = [0.0] * len(layers)
    for group in by_layer.values():
        for row, number in enumerate(group):
            rows[number] = float(row)
    forward = [by_layer[layer] for layer in sorted(by_layer)]
    for sweep in range(_SWEEPS):
        for group in forward if sweep % 2 == 0 else reversed(forward):
            _settle(group, rows, before if sweep % 2 == 0 else after)
    lowest = min(rows, default=0.0)
    return [row - lowest for row in rows]


def _settle(group: list[int], rows: list[float], near: Mapping[int, set[int]]) -> None:
    """Move a layer's nodes towards their neighbours, in that order and at least one row apart."""
    wanted = {}
    for number in group:
        each = near.get(number)
        wanted[number] = sum(map(rows.__getitem__, each)) / len(each) if each else rows[number]
    group.sort(key=lambda number: (wanted[number], number))
    free, push = -float("inf"), 0.0
    for number in group:
        rows[number] = max(wanted[number], free)
        push += rows[number] - wanted[number]
        free = rows[number] + 1
    # Nodes that were pushed down pull the layer up by their mean push, so that it stays where its neighbours are.
    for number in group:
        rows[number] -= push / len(group)


def _name_of(names: Sequence[str]) -> str:
    """Return the name of a node for jobs with these names."""
    return names[0] if len(names) == 1 else f"{len(names)} x {_shared_name(names)}"


def _shared_name(names: Sequence[str]) -> str:
    """Return the beginning that all names share, up to a whole word; the first name if there is none."""
    first, last = min(names), max(names)
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:same].rstrip(" -_:./(#") or names[0]


def _bend(layer: int, row: float) -> tuple[int, float]:
    """Return the place where an edge enters a layer that it crosses."""
    return _MARGIN + layer * (NODE_WIDTH + _GAP_X), _MARGIN + row * (NODE_HEIGHT + _GAP_Y) + NODE_HEIGHT / 2


def _line(start: PlacedNode, to: PlacedNode, bends: Sequence[tuple[int, float]], *, disk: bool) -> Line:
    x, y = start.x + NODE_WIDTH, f"{start.y + NODE_HEIGHT / 2:.1f}"
    path = [f"M{x} {y}"]
    for next_x, next_row in (*bends, (to.x, to.y + NODE_HEIGHT / 2)):
        half, next_y = (next_x - x) // 2, f"{next_row:.1f}"
        path.append(f"C{x + half} {y} {next_x - half} {next_y} {next_x} {next_y}")
        x, y = next_x + NODE_WIDTH, next_y
        path.append(f"H{x}")
    return Line("".join(path[:-1]), disk, start.critical and to.critical)
