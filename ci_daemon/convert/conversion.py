"""The pipelines of a project's files, checked as the service checks them."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from actors.ir import FileInvalid, IrError, IrSettings, PipelineFile, load
from actors.ir.systems import (
    NotReadable,
    Omission,
    Omissions,
    convert_drone,
    convert_github,
    convert_gitlab,
    convert_sourcehut,
    convert_woodpecker,
    name_of,
    unused,
)
from ci_daemon.convert.kinds import WORKFLOW_FOLDERS, Kind, kind_by_name, kind_of
from ci_daemon.convert.sources import read_documents
from ci_daemon.draft.yaml_text import yaml_text
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from actors.ir.systems import ConvertedPipeline, Located
    from ci_daemon.convert.sources import Project


@immutable
class Conversion:
    """Pipelines made of a project's files: their texts, by the names of files, and what differs."""

    texts: Mapping[str, str]
    omissions: tuple[Omission, ...]


def converted(project: Project) -> Conversion:
    """Return the files of pipelines that a project's files describe, and what is left out of them.

    Raises NotReadable if a file cannot be read, is another system's, or makes a pipeline that the service refuses.
    """
    texts: dict[str, str] = {}
    omissions: list[Omission] = []
    for file, found, left_out in _found(project):
        told = _told_of_other_systems(project, file)
        for each in found:
            name = unused(each.slug, [text.removesuffix(".yml") for text in texts])
            source = f"Converted by `ci-daemon convert` from {file.name}."
            with _of_file(file):
                texts[f"{name}.yml"] = written(replace(each, slug=name, notes=(*told, *each.notes)), source)
        omissions += [*told, *left_out]
    return Conversion(texts, tuple(omissions))


def _found(project: Project) -> Iterator[tuple[Path, tuple[ConvertedPipeline, ...], tuple[Omission, ...]]]:
    """Yield files with their pipelines and what is left out.

    Those of Woodpecker come together at the end, since they name each other.
    """
    of_woodpecker: dict[str, tuple[Located, Omissions]] = {}
    files: dict[str, Path] = {}
    for file in project.files:
        with _of_file(file):
            documents = read_documents(file)
            kind = kind_by_name(Path(os.path.abspath(file))) or kind_of(documents[0])  # noqa: PTH100 - not its target
            if kind is Kind.WOODPECKER:
                of_woodpecker[name_of(file.name)] = documents[0], Omissions(str(file))
                files[name_of(file.name)] = file
                continue
            found, left_out = _of_one(project, file, kind, documents)
        yield file, found, left_out
    if of_woodpecker:
        with _of_file(next(iter(files.values()))):
            found, left_out = convert_woodpecker(of_woodpecker)
        for each in found:
            yield files[each.of], (each,), left_out
            left_out = ()
        if left_out:
            yield next(iter(files.values())), (), left_out


def _of_one(
    project: Project, file: Path, kind: Kind, documents: Sequence[Located]
) -> tuple[tuple[ConvertedPipeline, ...], tuple[Omission, ...]]:
    """Return the pipelines of a file that says all by itself, and what is left out of it."""
    omissions = Omissions(str(file))
    match kind:
        case Kind.DRONE:
            return convert_drone(documents, omissions)
        case Kind.SOURCEHUT:
            return convert_sourcehut(documents[0], name_of(file.name), omissions), omissions.all
        case Kind.WORKFLOW:
            return convert_github(documents[0], file.stem, omissions), omissions.all
        case _:
            return convert_gitlab(documents[0], omissions, project.included), omissions.all


@contextmanager
def _of_file(file: Path) -> Iterator[None]:
    """Name the file in what makes it unreadable."""
    try:
        yield
    except NotReadable as error:
        message = f"{file}: {error}"
        raise NotReadable(message) from error


def _told_of_other_systems(project: Project, file: Path) -> list[Omission]:
    """Note that files of several systems, which may do the same, are pipelines side by side."""
    if _place(file) == _place(project.files[0]):
        return []
    why = f"{project.files[0]} is converted, too: what both do runs twice here, so remove one of the pipelines"
    return [Omission(str(file), 1, _place(file), why)]


def _place(file: Path) -> str:
    """Return the folder of a system, or the name of its only file."""
    if f"{file.parent.parent.name}/{file.parent.name}" in WORKFLOW_FOLDERS:
        return file.parent.parent.name
    return file.parent.name if file.parent.name in {".woodpecker", ".builds"} else file.name


def written(pipeline: ConvertedPipeline, source: str) -> str:
    """Return the text of a pipeline's file, as the service accepts it.

    Raises NotReadable if it would refuse the pipeline, as over a limit.
    """
    name = f".hm/{pipeline.slug}.yml"
    try:
        text = _text(pipeline, source)
        declared = PipelineFile.parse(name, text).declared({}, 0)
        load(json.dumps(declared["definition"]), IrSettings())
    except (FileInvalid, IrError) as error:
        first = error.mistakes[0].message if isinstance(error, FileInvalid) else error.faults[0].message
        message = f"the pipeline of it would be refused: {first}"
        raise NotReadable(message) from error
    return text


def _text(pipeline: ConvertedPipeline, source: str) -> str:
    head = {name: value for name, value in pipeline.document.items() if name != "jobs"}
    of_all = [each.comment for each in pipeline.notes if each.job is None]
    jobs = ((key, members, [each.comment for each in notes]) for key, members, notes in pipeline.written_jobs())
    return yaml_text([source, *of_all], head, jobs)
