"""A file of the language as a pipeline: its document, its triggers, and mistakes with lines. Pure.

What a document in JSON cannot say by itself is put into it: the content of the files that a cache names, and the day.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from actors.ir.decoding import IrError, quoted
from actors.ir.language.checking import check
from actors.ir.language.model import VERSION, Cache, Pipeline
from actors.ir.language.using import taken_over
from actors.ir.language.yaml_text import Document, FileInvalid, Mark, Mistake, Path, read_file
from actors.ir.triggers import Globs
from storage import immutable, slugify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actors.ir.language.using import JobFileText

_DAY = 86_400


@immutable
class PipelineFile:
    """A pipeline as a file declares it, with the name and the document of the file."""

    name: str
    pipeline: Pipeline
    document: Document

    @classmethod
    def parse(cls, name: str, text: str, used: Mapping[str, JobFileText] | None = None) -> PipelineFile:
        """Return the pipeline of a text. Raises FileInvalid.

        ``used`` are the files of jobs that it may use, by the names that it writes; a job whose file is not among them
        keeps its `use`.
        """
        document, repeated = read_file(name, text)
        return cls.checked(name, document, used, repeated)

    @classmethod
    def rendered(cls, found: Mapping[str, Any], used: Mapping[str, JobFileText] | None = None) -> PipelineFile:
        """Return the pipeline of a file in Python, as its render has it, which is untrusted.

        Raises FileInvalid, and LookupError, TypeError or ValueError for what no render writes.
        """
        return cls.checked(str(found["file"]), document_of(found), used)

    @classmethod
    def checked(
        cls,
        name: str,
        document: Document,
        used: Mapping[str, JobFileText] | None = None,
        known: Iterable[Mistake] = (),
    ) -> PipelineFile:
        """Return the pipeline of a file's document, some of whose mistakes are ``known``. Raises FileInvalid."""
        whole, mistakes = taken_over(name, document, used or {})
        mistakes += known
        try:
            pipeline = check(whole.value)
        except IrError as error:
            raise FileInvalid([*mistakes, *(Mistake.of(name, whole, each) for each in error.faults)]) from None
        if mistakes:
            raise FileInvalid(mistakes)
        return cls(name, pipeline, whole)

    @property
    def slug(self) -> str:
        """The name of the pipeline in addresses."""
        return self.pipeline.slug or slugify(self.name.rpartition("/")[2].rpartition(".")[0]) or "pipeline"

    @property
    def cached_globs(self) -> list[str]:
        """The globs of all files that its caches name."""
        return [glob for cache in self._caches() for glob in cache.files or ()]

    def _caches(self) -> Iterator[Cache]:
        yield from (job.cache for job in self.pipeline.jobs.values() if job.cache is not None)

    def declared(self, files: Mapping[str, str], now: float) -> dict[str, Any]:
        """Return the entry of the pipeline in the discovery envelope.

        ``files`` are the digests of the files that its caches name, by path. Raises FileInvalid.
        """
        document = {"version": VERSION, **self.pipeline.model_dump(mode="json", by_alias=True, exclude_unset=True)}
        mistakes = []
        for key, job in self.pipeline.jobs.items():
            if job.cache is None:
                continue
            found, missing = _matching(job.cache.files or (), files)
            place = self.document.mark(("jobs", key, "cache", "files"))
            for glob in missing:
                message = f"jobs.{key}.cache.files: no file of the repository matches {quoted(glob)}"
                mistakes.append(Mistake.at(self.name, place, message))
            document["jobs"][key]["cache"]["key"] = _key(job.cache, found, now)
        if mistakes:
            raise FileInvalid(mistakes)
        on = self.pipeline.on
        return {
            "slug": self.slug,
            "name": self.pipeline.name or self.slug,
            "allow_manual": on is None or on.manual is not None,
            "triggers": list(triggers_of(self.pipeline)),
            "file": self.name,
            "definition": document,
        }


def document_of(found: Mapping[str, Any]) -> Document:
    """Return the document of a file in Python, as its render has it. Raises as `rendered` does."""
    marks: dict[Path, Mark] = {tuple(path): Mark(int(line), int(column)) for path, line, column in found["marks"]}
    return Document(found["document"], marks)


def _matching(globs: Iterable[str], files: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the files that globs match, and the globs that match none."""
    found: dict[str, str] = {}
    missing = []
    for glob in globs:
        matcher = Globs([glob])
        matches = {path: digest for path, digest in files.items() if matcher.match(path)}
        found |= matches
        if not matches:
            missing.append(glob)
    return found, missing


def _key(cache: Cache, files: Mapping[str, str], now: float) -> str:
    """Return the key of a cache: all that its policy names."""
    parts: dict[str, object] = {"key": cache.key, "days": cache.days}
    if cache.days is not None:
        parts["period"] = int(now // (_DAY * cache.days))
    if cache.files is not None:
        parts["files"] = sorted(files.items())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def triggers_of(pipeline: Pipeline) -> Iterator[dict[str, object]]:
    """Yield the triggers of a pipeline, as `wants` reads them."""
    on = pipeline.on
    if on is None:
        return
    if on.push is not None:
        yield _trigger("push", branches=["*"] if on.push.branches is None else on.push.branches, paths=on.push.paths)
    if on.tag is not None:
        yield _trigger("push", tags=on.tag)
    if on.pull_request is not None:
        asked = on.pull_request
        yield _trigger("pull_request", branches=asked.branches, types=asked.types, paths=asked.paths)
    for each in on.schedule or ():
        yield _trigger("schedule", cron=each.cron, timezone=each.timezone)
    if on.pipeline is not None:
        inputs = on.pipeline.inputs or None
        yield _trigger("pipeline", slug=on.pipeline.slug, state=on.pipeline.state, inputs=inputs)


def _trigger(event: str, **fields: str | list[str] | dict[str, str] | None) -> dict[str, object]:
    return {"event": event} | {name: value for name, value in fields.items() if value is not None}
