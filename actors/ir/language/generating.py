"""Jobs that a job of a build generates: the file that declares them, and what joins the build. Pure.

The file comes from a job's VM. It is read in a confined process, and what is planned is a document of version "1".
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from actors.ir.decoding import Fault, IrError, decode
from actors.ir.language.beside import Beside
from actors.ir.language.checking import check, refusal
from actors.ir.language.inputs import fitting
from actors.ir.language.lowering import lowered
from actors.ir.language.model import Input, Pipeline
from actors.ir.language.yaml_text import Document, FileInvalid, Mark, Mistake, NotYaml, read_file, read_yaml
from storage import BuildErrorCode, EdgeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.built import Built
    from actors.ir.settings import IrSettings
    from storage import NewJob

_OF_PIPELINES = ("name", "slug", "on", "timeout", "concurrency")
_MARKED = 3
"""The most parts of a path whose place is kept: mistakes of a plan lead to a key of a job at most."""

Pipeline.model_rebuild()  # now: each fork would build its models again


def read_generated(name: str, text: str, beside: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a file with the places of its keys, or the mistakes in it.

    ``beside`` is the document of a `Beside`, ``inputs`` what the build's pipeline declares. For a confined process:
    arguments and result are JSON.
    """
    try:
        document, mistakes = _document(name, text)
    except FileInvalid as error:
        return {"mistakes": list(map(str, error.mistakes))}
    value: Any = document.value
    faults: list[Fault] = []
    if isinstance(value, dict):
        message = "it has no effect here: a generated file has `jobs`, and `defaults` and `env` of these"
        faults = [Fault(BuildErrorCode.INVALID_IR, message, (key,)) for key in _OF_PIPELINES if key in value]
        value = {key: each for key, each in value.items() if key not in _OF_PIPELINES}
        value |= {"on": {"manual": {"inputs": inputs}}} if inputs else {}
    if faults:
        mistakes += (Mistake.of(name, document, each) for each in refusal(faults).faults)
    pipeline = None
    try:
        pipeline = check(value, Beside.of(beside))
    except IrError as error:
        mistakes += (Mistake.of(name, document, each) for each in error.faults)
    if mistakes or pipeline is None:
        return {"mistakes": list(map(str, FileInvalid(mistakes).mistakes))}
    marks = [[path, mark.line, mark.column] for path, mark in document.marks.items() if len(path) <= _MARKED]
    return {
        "mistakes": [],
        "document": pipeline.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "marks": marks,
    }


def _document(name: str, text: str) -> tuple[Document, list[Mistake]]:
    """Return the document of a file in YAML, or in JSON if its name says so. Raises FileInvalid."""
    if not name.endswith(".json"):
        return read_file(name, text)
    try:
        value: Any = decode(text)
    except IrError as error:
        raise FileInvalid([Mistake.at(name, Mark(1, 1), error.message)]) from None
    try:
        marks = read_yaml(text).marks  # almost all JSON is YAML; where it is not, mistakes have no lines
    except NotYaml:
        marks = {}
    return Document(value, marks), []


def plan_generated(
    name: str, found: Mapping[str, Any], beside: Beside, limits: IrSettings, built: Built | None
) -> tuple[NewJob, ...]:
    """Return the jobs of what `read_generated` has found without mistakes.

    They depend on positions in the build, in which they come after all others. Raises FileInvalid.
    """
    document: dict[str, Any] = found["document"]
    try:
        jobs = lowered(check(document, beside), limits, built, beside).jobs
    except IrError as error:
        marks = {tuple(path): Mark(line, column) for path, line, column in found["marks"]}
        places = Document(cast("Any", document), marks)
        raise FileInvalid(Mistake.of(name, places, each) for each in error.faults) from None
    images = [each.image for each in beside.jobs]
    planned = []
    for job in jobs:
        parent = next((each.position for each in job.depends_on if each.kind is EdgeKind.BUILDS_IN), None)
        planned.append(job if parent is None else replace(job, image=images[parent]))
        images.append(planned[-1].image)
    return tuple(planned)


def declared_inputs(pipeline_ir: str) -> dict[str, Any]:
    """Return the inputs that the pipeline of a build declares, as its IR has them."""
    found: Any = json.loads(pipeline_ir)
    for key in ("on", "manual", "inputs"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def values_of_inputs(pipeline_ir: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the values of all inputs that the pipeline of a build declares, of which some were given."""
    declared = {name: Input.model_validate(each) for name, each in declared_inputs(pipeline_ir).items()}
    return fitting(declared, given, asked=False)[0]
