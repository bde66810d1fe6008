"""The discovery envelope: all pipelines of a repository (pipeline-ir.md, "Discovery envelope"). Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from storage import BuildErrorCode, Declaration, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_MESSAGE_CHARS = 4_000
_MAX_NAME_BYTES = 255
_FOLDER = ".hm"
_MOST_CONTAINERS = 500_000
_MAX_TTL_SECONDS = 2**40
_MAX_TTL_DAYS = 2**20


class RenderFailed(Exception):
    """A build cannot be rendered through the caller's fault; the message is its ``error_message``.

    ``log`` is the output of the pipeline files so far, ``code`` that of the build.
    """

    code: ClassVar = BuildErrorCode.RENDER_FAILED

    def __init__(self, message: str, log: bytes = b"") -> None:
        super().__init__(message)
        self.log = log

    @classmethod
    def exited(cls, what: str, exit_code: int, stderr: str, log: bytes = b"") -> RenderFailed:
        """Return the failure of a command in the VM."""
        return cls(f"{what} failed (exit {exit_code}): {stderr.strip()[:_MAX_MESSAGE_CHARS]}", log)

    @classmethod
    def late_fetch(cls, seconds: float) -> RenderFailed:
        """Return the failure of a source that has not come in time."""
        return cls.exited("source fetch", 124, f"it took longer than {seconds:g} s")


class MergeConflicts(RenderFailed):
    """A commit cannot be merged into a branch; the message says why, and what to do."""

    code: ClassVar = BuildErrorCode.MERGE_CONFLICT


@immutable
class DeclaredPipeline:
    """One pipeline as its repository declares it; ``definition`` is its v0 IR, not yet validated.

    ``file`` is the name of the file that says so, where the language tells it.
    """

    slug: str
    name: str
    allow_manual: bool
    triggers: tuple[Any, ...]
    definition: Any
    file: str = _FOLDER

    @property
    def declaration(self) -> Declaration:
        """The part of it that the storage keeps."""
        return Declaration(self.name, self.allow_manual, self.triggers, inputs=self.inputs)

    @property
    def inputs(self) -> dict[str, object]:
        """The inputs that builds may be given, as the definition declares them; none if it is of version "0"."""
        found = self.definition
        for key in ("on", "manual", "inputs"):
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) and self.definition.get("version") == "1" else {}

    @property
    def pipeline_ir(self) -> str:
        """The definition as JSON text. Raises RenderFailed if it is nested too deeply."""
        try:
            return json.dumps(self.definition)
        except RecursionError as error:
            raise RenderFailed.exited("render", 0, f"the pipeline {self.slug!r} is nested too deeply") from error


@immutable
class Envelope:
    """The pipelines that an archive's files registered, in their order.

    ``of_build`` tells that a file looked at what is built, so that another build may have others.
    """

    pipelines: tuple[DeclaredPipeline, ...]
    of_build: bool = False

    @classmethod
    def parse(cls, text: str) -> Envelope:
        """Parse the envelope that a VM returned, which is untrusted. Raises RenderFailed."""
        if text.count("[") + text.count("{") > _MOST_CONTAINERS:
            message = f"render failed (exit 0): the pipelines have more than {_MOST_CONTAINERS} lists and objects"
            raise RenderFailed(message)
        try:
            document = json.loads(text)
            if document["schema_version"] != "1":
                raise ValueError(document["schema_version"])
            return cls(tuple(_declared(each) for each in document["pipelines"]), document.get("of_build") is True)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            message = "render failed (exit 0): the pipeline files left no envelope of schema version 1"
            raise RenderFailed(message) from error

    def find(self, slug: str) -> DeclaredPipeline | None:
        """Return the pipeline with this slug, or None."""
        return next((each for each in self.pipelines if each.slug == slug), None)

    def select(self, slug: str) -> DeclaredPipeline:
        """Return the pipeline with this slug, or the only pipeline there is. Raises RenderFailed."""
        if not self.pipelines:
            message = "the pipeline files registered no pipeline"
            raise RenderFailed(message)
        found = self.pipelines[0] if len(self.pipelines) == 1 else self.find(slug)
        if found is None:
            known = ", ".join(each.slug for each in self.pipelines)
            raise RenderFailed.exited("render", 2, f"unknown pipeline {slug!r}; available: {known}")
        return found

    def valid_until(self, now: float) -> float | None:
        """Return when rendering the same files again gives other cache keys; None if it never does.

        In seconds since the epoch, as ``now`` is. The DSL puts ``now // duration`` into the key of a step that is
        cached for a time.
        """
        ends = [(now // seconds + 1) * seconds for each in self.pipelines for seconds in _ttl_seconds(each.definition)]
        return min(ends, default=None)


def _declared(document: dict[str, Any]) -> DeclaredPipeline:
    slug, name, allow_manual = document["slug"], document["name"], document["allow_manual"]
    if not (isinstance(slug, str) and isinstance(name, str) and isinstance(allow_manual, bool)):
        raise TypeError(slug)
    for text in (slug, name):
        if not 0 < len(text.encode()) <= _MAX_NAME_BYTES:
            what = f"the pipeline {slug[:_MAX_NAME_BYTES]!r} needs a slug and a name of 1 to {_MAX_NAME_BYTES} bytes"
            raise RenderFailed.exited("render", 0, what)
    file = document.get("file")
    known = file if isinstance(file, str) and 0 < len(file) <= _MAX_NAME_BYTES and file.isprintable() else _FOLDER
    return DeclaredPipeline(slug, name, allow_manual, tuple(document["triggers"]), document["definition"], known)


def _ttl_seconds(value: object) -> Iterator[int]:
    """Yield the seconds of every cache policy with a time in a definition, at any depth.

    Durations that are not positive, or longer than `_MAX_TTL_SECONDS`, are left out.
    """
    pending = [value]
    while pending:
        match pending.pop():
            case {"policy": "ttl", "duration_seconds": int(seconds)} if 0 < seconds <= _MAX_TTL_SECONDS:
                yield seconds
            case {"cache": {"days": int(days)}, **rest} if 0 < days <= _MAX_TTL_DAYS:
                yield days * 86_400
                pending += rest.values()
            case dict() as mapping:
                pending += mapping.values()
            case list() as items:
                pending += items
