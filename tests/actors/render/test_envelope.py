from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.render import DeclaredPipeline, Envelope, RenderFailed

EXAMPLES = Path(__file__).parents[2] / "data" / "render"


def envelope(*slugs: str, definition: object = None) -> Envelope:
    pipelines = [
        {"slug": slug, "name": slug, "allow_manual": True, "triggers": [], "definition": definition} for slug in slugs
    ]
    return Envelope.parse(json.dumps({"schema_version": "1", "pipelines": pipelines}))


def test_the_wanted_pipeline_has_the_slug_or_is_the_only_one():
    assert envelope("a", "b").select("b").slug == "b"
    assert envelope("a").select("whatever").slug == "a"


def test_a_missing_slug_is_refused_with_the_existing_ones():
    with pytest.raises(RenderFailed, match=r"^render failed \(exit 2\): unknown pipeline 'c'; available: a, b$"):
        envelope("a", "b").select("c")


def test_files_without_a_pipeline_say_so():
    with pytest.raises(RenderFailed, match=r"^the pipeline files registered no pipeline$"):
        envelope().select("a")


def test_a_message_has_the_beginning_of_the_output():
    assert str(RenderFailed.exited("render", 1, "x" * 5000)) == "render failed (exit 1): " + "x" * 4000


def test_a_pipeline_needs_a_name_that_can_be_kept():
    for slug in ("", "x" * 256):
        with pytest.raises(RenderFailed, match=r"^render failed \(exit 0\): the pipeline '.*' needs a slug and a name"):
            envelope(slug)
    with pytest.raises(RenderFailed, match="left no envelope"):
        envelope("\ud800")


def test_a_definition_nested_too_deeply_is_refused_as_such():
    nested: object = None
    for _ in range(100_000):
        nested = [nested]
    declared = DeclaredPipeline("a", "A", allow_manual=True, triggers=(), definition=nested)
    with pytest.raises(RenderFailed, match=r"^render failed \(exit 0\): the pipeline 'a' is nested too deeply$"):
        _ = declared.pipeline_ir


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        '{"schema_version": "2", "pipelines": []}',
        '{"schema_version": "1", "pipelines": [7]}',
        '{"schema_version": "1", "pipelines": [{"slug": "a", "name": 7, "allow_manual": true, "triggers": []}]}',
    ],
)
def test_an_invalid_envelope_is_refused(text: str):
    with pytest.raises(RenderFailed, match="left no envelope"):
        Envelope.parse(text)


def test_an_envelope_of_very_many_lists_is_refused():
    with pytest.raises(RenderFailed, match="more than 500000 lists and objects"):
        Envelope.parse(f"[{'[],' * 500_000}0]")


def test_an_envelope_is_valid_until_a_key_with_a_time_changes():
    step = {"cache": {"policy": "compose", "sub_policies": [{"policy": "ttl", "duration_seconds": 3600}]}}
    timed = envelope("a", definition={"graph": {"nodes": [{"step": step}]}})
    assert timed.valid_until(7201.5) == 10_800
    assert envelope("a").valid_until(7201.5) is None
    endless = {"policy": "ttl", "duration_seconds": 10**400}
    assert envelope("a", definition=endless).valid_until(7201.5) is None


def test_the_example_of_several_pipelines_is_read():
    read = Envelope.parse((EXAMPLES / "05-multi" / "envelope.json").read_text())
    assert [(each.slug, each.name, each.allow_manual) for each in read.pipelines] == [
        ("ci", "CI", True),
        ("nightly", "nightly", False),
        ("deploy", "deploy", True),
    ]
    assert read.pipelines[0].triggers[0] == {"event": "push", "branches": ["main", "release/*"]}
