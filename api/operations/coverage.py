"""Coverage of builds, from reports among their artifacts, and its change.

It is for members, as artifacts are.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from actors.coverage import FileCoverage, lines_of, percent_of
from api.operations.operation import GET, Call, Span, operation
from api.operations.things import BUILD, ThisBuild
from storage import Page, example, immutable

if TYPE_CHECKING:
    from actors.coverage import Compared

_MOST_RANGES = 1_000
_NONE = FileCoverage(0, 0)


@immutable
class CoverageRecord:
    """The coverage of a build in lines that can run and that ran; percents of nothing are null.

    ``base_number`` is the latest build of the target branch that passed before it and has coverage. ``change`` is the
    difference in points of percent. ``changed_lines`` are those that its source has and the base's has not; null if
    nobody knows them, as the source of one of the builds is gone. ``reports`` counts what was read, ``faults`` says why
    other reports were not.
    """

    lines: int
    covered_lines: int
    percent: float | None
    base_number: int | None
    base_percent: float | None
    change: float | None
    changed_lines: int | None
    changed_covered_lines: int | None
    changed_percent: float | None
    reports: int
    faults: tuple[str, ...] = example(["coverage.xml: it is no XML"])

    @classmethod
    def of(cls, found: Compared) -> CoverageRecord:
        """Return the record of a build's coverage."""
        own, before, changed = found.own, found.before, found.changed
        percent, base_percent = percent_of(own.hits, own.count), percent_of(before.hits, before.count)
        count = hits = None
        if changed is not None:
            count, hits = (sum(each.count for each in changed.values()), sum(each.hits for each in changed.values()))
        return CoverageRecord(
            lines=own.count,
            covered_lines=own.hits,
            percent=percent,
            base_number=None if found.base is None else found.base.number,
            base_percent=base_percent,
            change=_change(percent, base_percent),
            changed_lines=count,
            changed_covered_lines=hits,
            changed_percent=None if count is None or hits is None else percent_of(hits, count),
            reports=own.reports,
            faults=own.faults,
        )


@immutable
class FileCoverageRecord:
    """The coverage of a file, with the lines that did not run, and the changed ones of them.

    These are runs such as `3` or `7-12`, at most 1,000. ``base_percent`` and ``change`` are null if the target branch
    has no coverage of the file, ``changed_lines`` if nobody knows what changed.
    """

    path: str
    lines: int
    covered_lines: int
    percent: float | None
    base_percent: float | None
    change: float | None
    changed_lines: int | None
    changed_covered_lines: int | None
    uncovered: tuple[str, ...] = example(["3", "7-12"])
    changed_uncovered: tuple[str, ...] = example(["7-9"])


@operation("getBuildCoverage", GET, f"{BUILD}/coverage", "The coverage.")
def get_build_coverage(call: Call, build: ThisBuild) -> CoverageRecord:
    """Get the coverage of a build in sum, and its change against the target branch.

    It comes from artifacts that are reports of Cobertura, JaCoCo, LCOV or Go. The target branch is the one that a pull
    request is to be merged into, else the pipeline's default branch.
    """
    return CoverageRecord.of(call.build_coverage.compared(build))


@operation("listBuildCoverageFiles", GET, f"{BUILD}/coverage/files", "A page of files.")
def list_build_coverage_files(call: Call, build: ThisBuild, span: Span) -> Page[FileCoverageRecord]:
    """List the coverage of a build's files.

    First come those with most changed lines that did not run, then the others by path.
    """
    after = span.after or 0
    rows, more = listed_files(call.build_coverage.compared(build), after, span.limit)
    return Page(rows, after + span.limit if more else None)


def listed_files(found: Compared, first: int, count: int) -> tuple[tuple[FileCoverageRecord, ...], bool]:
    """Return the coverage of some files, and whether others follow.

    Those with most changed lines that did not run stand first.
    """
    files, changed = found.own.files, found.changed or {}
    missed = {path: each.count - each.hits for path, each in changed.items()}
    paths = sorted(files, key=lambda path: (-missed.get(path, 0), path))
    return tuple(_file(found, path, files[path]) for path in paths[first : first + count]), len(paths) > first + count


def _file(found: Compared, path: str, own: FileCoverage) -> FileCoverageRecord:
    before = found.before.files.get(path, _NONE)
    changed = None if found.changed is None else found.changed.get(path, _NONE)
    percent, base_percent = percent_of(own.hits, own.count), percent_of(before.hits, before.count)
    return FileCoverageRecord(
        path=path,
        lines=own.count,
        covered_lines=own.hits,
        percent=percent,
        base_percent=base_percent,
        change=_change(percent, base_percent),
        changed_lines=None if changed is None else changed.count,
        changed_covered_lines=None if changed is None else changed.hits,
        uncovered=_runs(own),
        changed_uncovered=_runs(changed or _NONE),
    )


def _runs(coverage: FileCoverage) -> tuple[str, ...]:
    runs = islice(lines_of(coverage.lines & ~coverage.covered), _MOST_RANGES)
    return tuple(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _change(percent: float | None, before: float | None) -> float | None:
    return None if percent is None or before is None else round(percent - before, 2)
