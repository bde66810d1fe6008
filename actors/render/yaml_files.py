"""The pipelines in YAML, documents of Python files, and files of jobs from other repositories.

For YAML no VM is needed: nothing of the repository runs. A confined process reads it. The process has bounds of CPU
time, memory and time, and so have the files and what they expand to.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from actors import vms
from actors.render.archive_reading import FOLDER, check_and_read, read_again, read_documents
from actors.render.envelope import RenderFailed
from storage import DatabaseUnavailable, Rendered, immutable
from storage.files import Bounds, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from pathlib import Path

    from actors.render.mistakes import FileMistake
    from storage.files import Confinement

FoundFiles: TypeAlias = "dict[str, dict[str, str]]"
"""By its name in pipelines the ``text`` of each file, or why it is ``refused``."""

_NOBODY = "only a service that the repositories are connected to has files of other repositories"
_OF_FORK = (
    "a pull request from a fork takes over jobs of other repositories once a member has approved its build: what they"
    " say may be private"
)
_DOCUMENTS_KEY = "documents"
_DOCUMENTS = f'"{_DOCUMENTS_KEY}":'
_BOUNDS = Bounds(cpu_seconds=10, memory_bytes=512 << 20, seconds=30)
_MAX_MESSAGE_CHARS = 4_000


class FilesInvalid(RenderFailed):
    """Files of an archive describe no pipelines; the message has each mistake, with its line and a caret."""

    def __init__(self, mistakes: Iterable[FileMistake]) -> None:
        from actors.render.mistakes import in_words  # noqa: PLC0415 - most files have none

        self.mistakes = tuple(mistakes)
        super().__init__(in_words(self.mistakes)[:_MAX_MESSAGE_CHARS])


@immutable
class ArchiveSource:
    """An archive, and the bounded process in which it is checked and its pipelines are read.

    It may have ``max_bytes`` unpacked, and must have the SHA-256, if one is given. ``now`` are the seconds since the
    epoch, of which caches take the day. ``others`` finds files of other repositories that pipelines use.
    """

    confinement: Confinement
    owner: str
    archive: Path
    manifest: Path
    max_bytes: int
    now: float
    others: Callable[[Sequence[str]], FoundFiles]
    sha256: str = ""

    def read(self) -> YamlFiles:
        """Check the archive, write its manifest, and return the pipelines of its YAML files.

        Raises RenderFailed, and DatabaseUnavailable if the manifest cannot be written now.
        """
        words, answer = self._checked()
        if answer is None:
            return YamlFiles((), alone=False, source=self)
        if answer["wanted"]:
            answer = self._run(words, read_again, self.now, self.others(answer["wanted"]))
        answer = _right(answer)
        log = "".join(f"{note}\n" for note in answer["notes"]).encode()
        return YamlFiles(tuple(answer["pipelines"]), alone=answer["alone"], source=self, log=log)

    def pipelines_of(self, documents: str) -> tuple[dict[str, Any], ...]:
        """Return the pipelines of the documents of Python files. Raises RenderFailed."""
        words = f"the Python files in {FOLDER}"
        answer = self._run(words, read_documents, documents, self.now, {})
        if answer["wanted"]:
            answer = self._run(words, read_documents, documents, self.now, self.others(answer["wanted"]))
        return tuple(_right(answer)["pipelines"])

    def _checked(self) -> tuple[str, dict[str, Any] | None]:
        """Check the archive; return what of it was read, in words, and the answer, None if nothing was."""
        words: str | None = None
        try:
            parts = self.confinement.each(
                check_and_read,
                *(str(self.archive), str(self.manifest), self.max_bytes, self.sha256, self.now),
                bounds=vms.source_check_bounds(self.archive),
                rest=_BOUNDS,
                owner=self.owner,
                errors=(vms.SourceError, DatabaseUnavailable, OSError),
            )
            with closing(cast("Generator[Any]", parts)):
                words = next(parts)
                return words or "", next(parts, None)
        except vms.SourceError as error:
            raise RenderFailed.exited("source fetch", 1, str(error)) from error
        except WorkFailed as error:
            if words is None:
                raise RenderFailed.exited("source fetch", 1, f"the source cannot be checked: {error}") from error
            message = f"{words} cannot be read: {error}"
            raise RenderFailed(message) from error

    def _run(self, words: str, read: Callable[..., dict[str, Any]], *given: object) -> dict[str, Any]:
        places, bounds = (str(self.archive), str(self.manifest)), _BOUNDS
        try:
            return self.confinement.run(read, *places, *given, bounds=bounds, owner=self.owner)
        except WorkFailed as error:
            message = f"{words} cannot be read: {error}"
            raise RenderFailed(message) from error


def _right(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer that has no mistakes. Raises FilesInvalid."""
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
    source: ArchiveSource
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
            own = self.source.pipelines_of(documents) if documents != "[]" else ()
        except RenderFailed as failure:
            failure.log = rendered.log
            raise
        names += [each["slug"] for each in (*own, *self.pipelines)]
        both = [slug for slug, count in Counter(names).items() if count > 1]
        if both:
            message = f"two files of {FOLDER} declare the pipeline {both[0]!r}"
            raise RenderFailed(message, rendered.log)
        envelope["pipelines"] += (*own, *self.pipelines)
        return replace(rendered, envelope=json.dumps(envelope))

    def rendered(self) -> Rendered:
        """Return the result of a render of these files alone."""
        return Rendered(json.dumps({"schema_version": "1", "pipelines": self.pipelines}), self.log)


def refused(names: Sequence[str], why: str) -> FoundFiles:
    """Return that none of some files is there."""
    return {name: {"refused": why} for name in names}


def nowhere(names: Sequence[str]) -> FoundFiles:
    """Return that no other repository is known."""
    return refused(names, _NOBODY)


class JobFiles:
    """The files of jobs of the repositories that an organization has connected.

    Who composes the service says by what they are fetched; a command without repositories has none. Safe in any thread.
    """

    def __init__(self) -> None:
        self._fetch: Callable[[str, Sequence[str]], FoundFiles] | None = None

    def come_from(self, fetch: Callable[[str, Sequence[str]], FoundFiles]) -> None:
        """Let files come from a function of an organization's slug and their names."""
        self._fetch = fetch

    def find(self, organization: str, names: Sequence[str], *, strangers: bool) -> FoundFiles:
        """Return files for an organization's build; it blocks while they are fetched.

        It is of ``strangers`` if it is of a fork's commit that no member has approved.
        """
        if self._fetch is None:
            return nowhere(names)
        return refused(names, _OF_FORK) if strangers else self._fetch(organization, names)
