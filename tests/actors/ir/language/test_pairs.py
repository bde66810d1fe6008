"""Pipelines in both spellings, YAML and Python: they come to the same plan."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from actors.ir import Built, IrSettings, PipelineFile, Plan, load
from tests.rendering import documents_of

TESTS = Path(__file__).parents[3]
PAIRS = sorted((TESTS / "data" / "language" / "pairs").glob("*.yml"))
PAGE = TESTS.parent / "docs" / "coming-from.md"
BUILDS = (
    Built(event="push", branch="main", commit="c0ffee"),
    Built(event="tag", branch="v1", tag="v1"),
    Built(event="pull_request", branch="x", target_branch="main", pull_request="1", fork=True),
    Built(event="manual", branch="dev"),
)


def declared(file: PipelineFile) -> tuple[object, Plan, list[Plan]]:
    """Return the triggers of a pipeline, its plan, and its plans for builds."""
    found = file.declared({}, 0)
    text = json.dumps(found["definition"])
    triggers = [found["slug"], found["name"], found["allow_manual"], found["triggers"]]
    given = {"target": "production"} if '"target": {' in text else {}
    builds = [replace(each, inputs=given if each.event == "manual" else {}) for each in BUILDS]
    return triggers, load(text, IrSettings()), [load(text, IrSettings(), built) for built in builds]


def in_python(text: str) -> PipelineFile:
    (document,) = documents_of(text)
    return PipelineFile.rendered(document)


def test_there_are_forty_pairs():
    assert len(PAIRS) >= 40
    assert [each.stem for each in PAIRS] == sorted(each.stem for each in PAIRS[0].parent.glob("*.py"))


@pytest.mark.parametrize("file", PAIRS, ids=lambda each: each.stem)
def test_both_spellings_are_one_plan(file: Path):
    in_yaml = PipelineFile.parse(f".hm/{file.name}", file.read_text())
    assert declared(in_yaml) == declared(in_python(file.with_suffix(".py").read_text()))


def test_both_spellings_on_the_page_are_one_plan():
    in_yaml, python = (
        re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE) for kind in ("yaml", "python")
    )
    assert len(in_yaml) == 4
    for text, other in zip(in_yaml, python, strict=True):
        assert declared(PipelineFile.parse(".hm/ci.yml", text)) == declared(in_python(other))
