"""The pipelines in YAML and documents of Python files, read in a confined process.

For YAML no VM is needed: nothing of the repository runs. The process has bounds of CPU time, memory and time, and so
have the files and what they expand to.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.render.envelope import RenderFailed
from storage import Rendered, immutable
from storage.files import Bounds, WorkFailed, entries_at, entries_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from actors.render.job_files import FoundFiles
    from actors.render.mistakes import FileMistake
    from storage.files import Confinement, Entry

_FOLDER = ".hm"
_DOCUMENTS_KEY = "documents"
_DOCUMENTS = f'"{_DOCUMENTS_KEY}":'
_SUFFIXES = (".yml", ".yaml")
_BOUNDS = Bounds(cpu_seconds=10, memory_bytes=512 << 20, seconds=30)
_MOST_ENTRIES = 2_000
_MAX_MESSAGE_CHARS = 4_000

_Place: TypeAlias = "tuple[str, str, int, int]"
"""The name, kind, start and size of a file of an archive."""


class FilesInvalid(RenderFailed):
    """Files of an archive describe no pipelines; the message has each mistake, with its line and a caret."""

    def __init__(self, mistakes: Iterable[FileMistake]) -> None:
        from actors.render.mistakes import in_words  # noqa: PLC0415 - most files have none

        self.mistakes = tuple(mistakes)
        super().__init__(in_words(self.mistakes)[:_MAX_MESSAGE_CHARS])


@immutable
class _Source:
    """An archive that was checked, and the bounded process in which its organization's pipelines are read.

    ``now`` are the seconds since the epoch, of which caches take the day. ``below`` are the files in folders of `.hm`,
    among which are those of jobs that pipelines use; ``others`` finds those of other repositories.
    """

    confinement: Confinement
    owner: str
    archive: Path
    manifest: Path
    now: float
    others: Callable[[Sequence[str]], FoundFiles]
    below: tuple[_Place, ...] = ()

    def pipelines(self, files: list[_Place], documents: str = "[]") -> tuple[dict[str, Any], ...]:
        """Return the pipelines of YAML files, and of documents. Raises RenderFailed."""
        from actors.render.yaml_reading import read  # noqa: PLC0415 - pydantic, for repositories with such files alone

        what = f"the {'YAML' if files else 'Python'} files in {_FOLDER}"
        given = files, documents, list(self.below)
        answer = self._answer(what, read, *given, {})
        if answer["wanted"]:
            answer = self._answer(what, read, *given, self.others(answer["wanted"]))
        return tuple(answer["pipelines"])

    def translated(self, files: list[_Place]) -> YamlFiles:
        """Return the pipelines of other systems' files, with notes on what differs. Raises RenderFailed."""
        from actors.render.yaml_reading import translate  # noqa: PLC0415 - as above

        answer = self._answer(f"{files[0][0]} and files beside it", translate, files)
        log = "".join(f"{note}\n" for note in answer["notes"]).encode()
        return YamlFiles(tuple(answer["pipelines"]), alone=True, source=self, log=log)

    def _answer(self, what: str, read: Callable[..., dict[str, Any]], *arguments: object) -> dict[str, Any]:
        places, bounds, owner = (str(self.archive), str(self.manifest)), _BOUNDS, self.owner
        try:
            answer = self.confinement.run(read, *places, *arguments, self.now, bounds=bounds, owner=owner)
        except WorkFailed as error:
            message = f"{what} cannot be read: {error}"
            raise RenderFailed(message) from error
        if answer["mistakes"]:
            from actors.render.mistakes import FileMistake  # noqa: PLC0415 - as above

            raise FilesInvalid(FileMistake(*each) for each in answer["mistakes"])
        return answer


@immutable
class YamlFiles:
    """The pipelines of an archive's YAML files, as the discovery envelope has them.

    They are ``alone`` if there are no Python files. ``log`` tells what differs in them from another system's files.
    """

    pipelines: tuple[dict[str, Any], ...]
    alone: bool
    source: _Source
    log: bytes = b""

    def with_others(self, rendered: Rendered) -> Rendered:
        """Return the result of a render of other files together with these. Raises RenderFailed."""
        if not self.pipelines and _DOCUMENTS not in rendered.envelope:
            return rendered
        try:
            envelope = json.loads(rendered.envelope)
            documents = json.dumps(envelope.pop(_DOCUMENTS_KEY, []))
            names = list({each["slug"] for each in envelope["pipelines"]})
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            message = "render failed (exit 0): the pipeline files left no envelope of schema version 1"
            raise RenderFailed(message, rendered.log) from error
        try:
            own = self.source.pipelines([], documents) if documents != "[]" else ()
        except RenderFailed as failure:
            failure.log = rendered.log
            raise
        names += [each["slug"] for each in (*own, *self.pipelines)]
        both = [slug for slug, count in Counter(names).items() if count > 1]
        if both:
            message = f"two files of {_FOLDER} declare the pipeline {both[0]!r}"
            raise RenderFailed(message, rendered.log)
        envelope["pipelines"] += (*own, *self.pipelines)
        return replace(rendered, envelope=json.dumps(envelope))

    def rendered(self) -> Rendered:
        """Return the result of a render of these files alone."""
        return Rendered(json.dumps({"schema_version": "1", "pipelines": self.pipelines}), self.log)


def is_yaml_name(name: str) -> bool:
    """Tell whether the name of a file says that it is YAML."""
    return name.endswith(_SUFFIXES)


def read_yaml_files(
    confinement: Confinement,
    owner: str,
    archive: Path,
    manifest: Path,
    now: float,
    others: Callable[[Sequence[str]], FoundFiles],
) -> YamlFiles:
    """Return the pipelines of an archive's YAML files, in an organization's turn. Raises RenderFailed.

    The archive was checked before. ``now`` is in seconds since the epoch; caches use its day. ``others`` finds the
    files of other repositories that pipelines use.
    """
    below = entries_below(manifest, _FOLDER.encode(), _MOST_ENTRIES)
    entries = [each for each in below if each.path.count(b"/") == 1]
    files = [each for each in entries if is_yaml_name(each.path.decode(errors="replace"))]
    of_jobs = [_shown(each) for each in below if each.path.count(b"/") > 1]
    source = _Source(
        confinement, owner, archive, manifest, now, others, tuple(each for each in of_jobs if is_yaml_name(each[0]))
    )
    if not files:
        of_others = [] if entries else _of_other_systems(manifest)
        return source.translated(of_others) if of_others else YamlFiles((), alone=False, source=source)
    pipelines = source.pipelines([_shown(each) for each in files])
    return YamlFiles(pipelines, alone=not any(each.path.endswith(b".py") for each in entries), source=source)


def _of_other_systems(manifest: Path) -> list[_Place]:
    """Return the files of other systems, which are rendered where a repository has none of its own."""
    from actors.ir.systems import FOLDERS, TOP, files_of_others  # noqa: PLC0415 - for repositories without .hm alone

    found = entries_at(manifest, [name.encode() for name in TOP])
    found += [each for folder in FOLDERS for each in entries_below(manifest, folder.encode(), _MOST_ENTRIES)]
    shown = {each.path.decode(errors="replace"): _shown(each) for each in found}
    return [shown[name] for name in files_of_others(shown)]


def _shown(entry: Entry) -> _Place:
    return entry.path.decode(errors="replace"), entry.kind, entry.start, entry.size
