"""The reading of YAML and documents, in a confined process."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.ir.decoding import quoted
from actors.ir.language.model import Pipeline
from actors.ir.language.names import nearest
from actors.ir.language.rendering import PipelineFile, document_of
from actors.ir.language.scalars import JobFileName
from actors.ir.language.using import JobFileText, used_files
from actors.ir.language.yaml_text import Document, FileInvalid, Mistake, read_file
from actors.ir.systems import translated
from actors.ir.triggers import Globs
from actors.render.archive_reading import FOLDER, Place
from actors.render.mistakes import with_sources
from storage import BuildErrorCode
from storage.files import EntryKind, changed_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_FILES = 100
_MOST_BYTES = 1 << 20

_Mistake = tuple[str, int, int, str, str]

Pipeline.model_rebuild()  # now: each fork would build its models again


def read(
    archive: str,
    manifest: str,
    files: list[Place],
    documents: str,
    below: list[Place],
    others: dict[str, dict[str, str]],
    now: float,
    scripts: Sequence[Place] = (),
) -> dict[str, Any]:
    """Return the pipelines of files, and of documents in JSON, or all mistakes in them.

    ``below`` are the files of jobs that they may use, and ``others`` the texts of those of other repositories, or why
    there is none. If some of these are not there yet, it returns their names alone, as ``wanted``. ``scripts`` are the
    Python files of the documents, whose lines mistakes show.
    """
    parsed: list[PipelineFile] = []
    mistakes: list[_Mistake] = []

    def add(error: FileInvalid) -> None:
        mistakes.extend((each.file, each.line, each.column, each.code, each.message) for each in error.mistakes)

    found: list[tuple[str, Document, list[Mistake]]] = []
    texts = dict(_contents(archive, files, mistakes))
    for name, text in texts.items():
        try:
            found.append((name, *read_file(name, text)))
        except FileInvalid as error:
            add(error)
    found += [(str(each["file"]), document_of(each), []) for each in json.loads(documents)]
    names = {each: JobFileName.parse(each) for _, document, _ in found for each in used_files(document)}
    wanted = sorted(each for each, name in names.items() if name.repository is not None and each not in others)
    if wanted:
        return {"wanted": wanted, "pipelines": [], "mistakes": []}
    used = _used(archive, names, below, others)
    for name, document, known in found:
        try:
            parsed.append(PipelineFile.checked(name, document, used, known))
        except FileInvalid as error:
            add(error)
    digests = _digests(Path(manifest), [glob for each in parsed for glob in each.cached_globs])
    pipelines: dict[str, dict[str, Any]] = {}
    for each in parsed:
        try:
            declared = each.declared(digests, now)
        except FileInvalid as error:
            add(error)
            continue
        if declared["slug"] in pipelines:
            message = f'another file declares the pipeline "{declared["slug"]}", too: give one of them another slug'
            mark = each.document.mark(())
            mistakes.append((each.name, mark.line, mark.column, BuildErrorCode.INVALID_IR, message))
        pipelines[declared["slug"]] = declared
    texts |= {each.name: each.text for each in used.values()}
    faulty = {mistake[0] for mistake in mistakes}
    texts |= dict(_contents(archive, [each for each in scripts if each[0] in faulty], []))
    return {"pipelines": list(pipelines.values()), "mistakes": with_sources(mistakes, texts), "wanted": []}


def _used(
    archive: str, names: dict[str, JobFileName], below: list[Place], others: dict[str, dict[str, str]]
) -> dict[str, JobFileText]:
    """Return the files of jobs by the names that pipelines write; one that is not there says so."""
    places = {place[0]: place for place in below}
    own = {use: f"{FOLDER}/{name.path}" for use, name in names.items() if name.repository is None}
    unreadable: list[_Mistake] = []
    there = [places[each] for each in dict.fromkeys(own.values()) if each in places]
    texts = dict(_contents(archive, there, unreadable)) if there else {}
    why = {name: message for name, _, _, _, message in unreadable}
    used = {use: JobFileText(use, **each) for use, each in others.items()}
    for use, path in own.items():
        if path in texts:
            used[use] = JobFileText(path, texts[path])
        else:
            hint = nearest(use, [each.removeprefix(f"{FOLDER}/") for each in places])
            used[use] = JobFileText(path, refused=why.get(path, f"there is no file {quoted(path)}{hint}"))
    return used


def translate(archive: str, files: list[Place], now: float) -> dict[str, Any]:
    """Return the pipelines of other systems' files, with notes, or all mistakes and losses in them."""
    mistakes: list[_Mistake] = []
    texts = dict(_contents(archive, files, mistakes))
    found = translated(texts)
    for each in found.omissions:
        if each.is_loss:
            key = f"{each.key}: " if each.key else ""
            mistakes.append((each.file, each.line, 1, BuildErrorCode.INVALID_IR, f"{key}{each.why}"))
    pipelines = []
    for file, pipeline in found.pipelines:
        document = Document(json.loads(json.dumps({"slug": pipeline.slug, **pipeline.document})), {})
        try:
            pipelines.append(PipelineFile.checked(file, document).declared({}, now))
        except FileInvalid as error:
            mistakes.extend((each.file, each.line, each.column, each.code, each.message) for each in error.mistakes)
    notes = [str(each) for each in found.omissions]
    return {"pipelines": pipelines, "mistakes": with_sources(mistakes, texts), "notes": notes}


def _contents(archive: str, files: list[Place], mistakes: list[_Mistake]) -> list[tuple[str, str]]:
    """Return the names and texts of files, in the order of names; what cannot be read is a mistake."""
    found: dict[str, str] = {}
    left = _MOST_BYTES
    with gzip.open(archive) as unpacked:
        for name, kind, start, size in sorted(files[: _MOST_FILES + 1], key=lambda each: each[2]):
            left -= size
            if kind != EntryKind.FILE:
                mistakes.append((name, 1, 1, BuildErrorCode.INVALID_IR, f"expected a file, and there is a {kind}"))
            elif left < 0 or len(found) >= _MOST_FILES:
                message = f"the YAML files are more than {_MOST_FILES}, or more than {_MOST_BYTES >> 10} KiB"
                mistakes.append((name, 1, 1, BuildErrorCode.INVALID_IR, message))
                break
            else:
                unpacked.seek(start)
                content = unpacked.read(size)
                try:
                    found[name] = content.decode("utf-8-sig")
                except UnicodeDecodeError as error:
                    line = content.count(b"\n", 0, error.start) + 1
                    mistakes.append((name, line, 1, BuildErrorCode.INVALID_IR, "the file is not UTF-8"))
    return sorted(found.items())


def _digests(manifest: Path, globs: list[str]) -> dict[str, str]:
    """Return the digests of the files of an archive that any of the globs matches."""
    if not globs:
        return {}
    matcher, found = Globs(globs), {}
    for entry in changed_entries(manifest, None):
        path = entry.path.decode(errors="replace")
        if entry.kind is not EntryKind.FOLDER and matcher.match(path):
            found[path] = (
                entry.content.hex() if entry.kind is EntryKind.FILE else entry.content.decode(errors="replace")
            )
    return found
