"""The coverage of a build: all its reports together, and beside that of another build."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from actors.coverage.changed_lines import changed_lines
from actors.coverage.formats import HEAD, CoverageUnreadable, FileCoverage, NotCoverage, may_be_coverage, read_coverage
from actors.test_reports import source_files
from storage import immutable
from storage.files import Bounds, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.test_reports import SourceFiles
    from storage import Artifact, Build, Storage

_SUFFIXES = (".xml", ".info", ".lcov", ".out", ".coverprofile", "coverage.txt")
_MOST_REPORTS = 200
_LARGEST_REPORT = 20 * 2**20
_MOST_BYTES = 60 * 2**20
_MOST_BITS = 2**28
"""The most bits of the masks of one build: a few large files, or some ten thousand of usual ones."""

_BOUNDS = Bounds(cpu_seconds=10, memory_bytes=512 << 20, seconds=60)
_PART = 500
"""The files that another process sends at once: no other thread runs while they are decoded."""


@immutable
class BuildCoverage:
    """The coverage of a build's files; ``faults`` says why some of its reports were not read."""

    files: Mapping[str, FileCoverage] = field(default_factory=dict)
    reports: int = 0
    faults: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of lines that can run."""
        return sum(each.count for each in self.files.values())

    @property
    def hits(self) -> int:
        """The number of lines that ran."""
        return sum(each.hits for each in self.files.values())


@immutable
class Compared:
    """A build's coverage beside that of a build of its target branch, if that has some.

    ``changed`` has the coverage of changed lines by file; None if nobody knows what changed.
    """

    own: BuildCoverage
    base: Build | None = None
    before: BuildCoverage = BuildCoverage()
    changed: Mapping[str, FileCoverage] | None = None


def reports_of(storage: Storage, build: Build) -> list[Artifact]:
    """Return the artifacts that may be reports of coverage, by their names."""
    found = {
        each.id: each for suffix in _SUFFIXES for each in storage.artifacts.ending(build.id, suffix, _MOST_REPORTS)
    }
    return [found[key] for key in sorted(found)][:_MOST_REPORTS]


def read_build(storage: Storage, build: Build, reports: list[Artifact]) -> BuildCoverage:
    """Return what the reports of a build say together: at most 200 of 60 MiB, each of 20."""
    named: dict[str, FileCoverage] = {}
    faults: list[str] = []
    count, left = 0, _MOST_BYTES
    for artifact in reports:
        if not _begins_as_report(storage, artifact):
            continue
        if artifact.file_size > min(left, _LARGEST_REPORT):
            faults.append(f"{artifact.path}: it is too large")
            continue
        left -= artifact.file_size
        try:
            for path, coverage in _read_confined(storage, build, artifact):
                named[path] = named[path] | coverage if path in named else coverage
        except CoverageUnreadable as error:
            faults.append(f"{artifact.path}: {error}")
        except NotCoverage:
            continue
        else:
            count += 1
    files, fault = _of_source(source_files(storage, build), named)
    return BuildCoverage(files, count, (*faults, *fault))


def target_build(storage: Storage, build: Build) -> Build | None:
    """Return the latest build of a build's target branch that passed before it; None if there is none.

    That branch is the one a pull request is to be merged into, else the pipeline's default branch.
    """
    origin = storage.build_origins.get(build.id)
    branch = None if origin is None else origin.target_branch
    if branch is None:
        pipeline = storage.pipelines.by_id(build.pipeline_id)
        branch = None if pipeline is None else pipeline.default_branch
    return None if branch is None else storage.builds.latest_passed(build.pipeline_id, branch, build.number)


def percent_of(hits: int, count: int) -> float | None:
    """Return a share in percent, with two digits, and 100 only if it is all; None of nothing."""
    return hits * 10_000 // count / 100 if count else None


def coverage_in_words(storage: Storage, build: Build) -> str:
    """Return the coverage of a build and its change, as in "coverage 83.21% (+0.40)"; "" if it has none."""
    reports = reports_of(storage, build)
    own = read_build(storage, build, reports) if reports else BuildCoverage()
    percent = percent_of(own.hits, own.count)
    if percent is None:
        return ""
    base = target_build(storage, build)
    before = BuildCoverage() if base is None else read_build(storage, base, reports_of(storage, base))
    base_percent = percent_of(before.hits, before.count)
    return f"coverage {percent:.2f}%" + ("" if base_percent is None else f" ({percent - base_percent:+.2f})")


def _of_source(
    source: SourceFiles, named: Mapping[str, FileCoverage]
) -> tuple[Mapping[str, FileCoverage], tuple[str, ...]]:
    """Return the files of reports by their paths, without those of libraries, and perhaps a fault."""
    files: dict[str, FileCoverage] = {}
    bits = _MOST_BITS
    for name, coverage in sorted(named.items()):
        path = source.named(name)
        if path is not None:
            bits -= coverage.lines.bit_length()
            if bits < 0:
                return files, ("its files are too long to keep their lines",)
            files[path] = files[path] | coverage if path in files else coverage
    return files, ()


def _begins_as_report(storage: Storage, artifact: Artifact) -> bool:
    try:
        with storage.artifacts.path(artifact).open("rb") as file:
            return may_be_coverage(file.read(HEAD))
    except OSError:
        return False


def _read_confined(storage: Storage, build: Build, artifact: Artifact) -> Iterator[tuple[str, FileCoverage]]:
    """Yield the files of a report, read in a process of its own. Raises NotCoverage."""
    path = storage.artifacts.path(artifact)
    try:
        parts = storage.confinement.each(
            masks,
            str(path),
            bounds=_BOUNDS,
            owner=build.organization_slug,
            errors=(NotCoverage, CoverageUnreadable, OSError),
        )
        for part in parts:
            for name, lines, covered in part:
                yield name, FileCoverage(int(lines, 16), int(covered, 16))
    except WorkFailed as error:
        raise CoverageUnreadable(f"it cannot be read: {error}") from None
    except OSError as error:
        raise CoverageUnreadable(f"it cannot be read: {error.strerror}") from None


def masks(path: str) -> Iterator[list[tuple[str, str, str]]]:
    """Yield the files of a report in parts, their masks in hexadecimal digits. Runs in another process."""
    files = list(read_coverage(Path(path).read_bytes()).items())
    for first in range(0, len(files), _PART):
        yield [(name, f"{each.lines:x}", f"{each.covered:x}") for name, each in files[first : first + _PART]]


def compared(storage: Storage, build: Build, own: BuildCoverage, base: Build, before: BuildCoverage) -> Compared:
    """Return a build's coverage beside that of another build, and that of the changed lines."""
    masks_of_changes = changed_lines(storage, build, base, own.files.keys())
    if masks_of_changes is None:
        return Compared(own, base, before)
    return Compared(own, base, before, {path: own.files[path] & mask for path, mask in masks_of_changes.items()})
