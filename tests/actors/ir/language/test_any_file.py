"""Any file is a pipeline or has mistakes with their places; nothing else comes of it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.ir import FileInvalid, IrError, IrSettings, PipelineFile, json_schema, load


def _properties(schema: object) -> list[str]:
    """Return all keys of the language."""
    if not isinstance(schema, dict):
        return []
    own = schema.get("properties", {})
    return sorted({*own, *(name for each in schema.get("$defs", {}).values() for name in _properties(each))})


KEYS = st.sampled_from([*_properties(json_schema()), "a", "b", "x-a", "services", "<<"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["a", "b", "", "1h", "8GB", "main"])
TEXTS = st.sampled_from(["${{ matrix.a }}", "${{ build.branch }}", "${{", "${{ }}", "${{ a b }}", "\ud7ff\x85", "a\0b"])
VALUES = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)
JOBS = st.dictionaries(
    st.sampled_from("abc"), st.dictionaries(KEYS, VALUES, max_size=4).map(lambda job: {"run": "x", **job})
)
TOPS = st.dictionaries(KEYS, VALUES, max_size=4)
DOCUMENTS = VALUES | st.builds(lambda top, jobs: {**top, "jobs": jobs}, TOPS, JOBS)
TOKENS = st.sampled_from(
    ["jobs", ":", " ", "\n", "  ", "- ", "{", "}", "[", "]", ",", "&a ", "*a", "<<", "'", '"', "|", ">", "#", "!!str ",
     "run", "a", "? ", "%", "---", "...", "\t", "é", "\u2028", "\\", "1"]
)  # fmt: skip


def mistakes_of(text: str) -> list[tuple[int, int, str]]:
    """Return the mistakes of a file, with their places; none if it plans into jobs."""
    try:
        document = PipelineFile.parse(".hm/a.yml", text).declared({"a": "1"}, 0.0)["definition"]
    except FileInvalid as error:
        return [(each.line, each.column, each.message) for each in error.mistakes]
    message = refused(json.dumps(document))
    return [] if message is None else [(1, 1, message)]


def refused(text: str) -> str | None:
    """Return why a document is refused; None if it plans into jobs."""
    try:
        return None if load(text, IrSettings()).jobs else ""
    except IrError as error:
        return error.message


def has_good_mistakes(text: str) -> bool:
    """Tell whether a file plans, or each of its mistakes has words and a place in it."""
    lines = sum(map(text.count, ("\n", "\r", "\x85", "\u2028"))) + 2
    return all(1 <= line <= lines and column >= 1 and words for line, column, words in mistakes_of(text))


@settings(max_examples=300, deadline=None)
@given(st.lists(TOKENS, max_size=40).map("".join) | st.text(max_size=60))
def test_any_text_is_a_pipeline_or_has_mistakes(text: str):
    assert has_good_mistakes(text)


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS)
@example({"jobs": {"a": {"run": "x", "problems": {}}}})
@example({"jobs": {"a": {"run": "x", "problems": [[]]}}})
def test_any_document_is_a_pipeline_or_has_mistakes(document: Any):
    """As YAML, whose scalars are texts first, and as JSON."""
    text = json.dumps(document, allow_nan=False) if _is_json(document) else "{}"
    assert has_good_mistakes(text)
    assert refused(text) != ""


def _is_json(document: object) -> bool:
    try:
        json.dumps(document, allow_nan=False)
    except ValueError:
        return False
    return True
