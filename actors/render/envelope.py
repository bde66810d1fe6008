"""The discovery envelope: all pipelines of a repository (pipeline-ir.md, "Discovery envelope"). Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from storage import Declaration, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_MESSAGE_CHARS = 4_000
_MAX_NAME_BYTES = 255
_MOST_CONTAINERS = 500_000
_MAX_TTL_SECONDS = 2**40


class RenderFailed(Exception):
    """A build cannot be rendered through the caller's fault; the message is its ``error_message``.

    ``log`` is the output of the pipeline files so far.
    """

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


@immutable
class DeclaredPipeline:
    """One pipeline as its repository declares it; ``definition`` is its v0 IR, not yet validated."""

    slug: str
    name: str
    allow_manual: bool
    triggers: tuple[Any, ...]
    definition: Any

    @property
    def declaration(self) -> Declaration:
        """The part of it that the storage keeps."""
        return Declaration(self.name, self.allow_manual, self.triggers)

    @property
    def pipeline_ir(self) -> str:
        """The definition as JSON text. Raises RenderFailed if it is nested too deeply."""
        try:
            return json.dumps(self.definition)
        except RecursionError as error:
            raise RenderFailed.exited("render", 0, f"the pipeline {self.slug!r} is nested too deeply") from error


@immutable
class Envelope:
    """The pipelines that an archive's files registered, in their order."""

    pipelines: tuple[DeclaredPipeline, ...]

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
            return cls(tuple(_declared(each) for each in document["pipelines"]))
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
    return DeclaredPipeline(slug, name, allow_manual, tuple(document["triggers"]), document["definition"])


def _ttl_seconds(value: object) -> Iterator[int]:
    """Yield the seconds of every ``ttl`` cache policy in a definition, at any depth.

    Durations that are not positive, or longer than `_MAX_TTL_SECONDS`, are left out.
    """
    pending = [value]
    while pending:
        match pending.pop():
            case {"policy": "ttl", "duration_seconds": int(seconds)} if 0 < seconds <= _MAX_TTL_SECONDS:
                yield seconds
            case dict() as mapping:
                pending += mapping.values()
            case list() as items:
                pending += items
