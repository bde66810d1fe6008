"""Keys without effect: each is named with its place and the nearest known word."""

from __future__ import annotations

from typing import Any

import pytest

from actors.ir import RUNNER_ARGS, IrError
from actors.ir.unknown_keys import KNOWN_KEYS
from tests.actors.ir.documents import command, flat, graph, node, planned
from tests.actors.ir.test_examples import EXAMPLES


def warnings(document: object) -> list[str]:
    return list(planned(document).warnings)


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_the_language_writes_has_no_unknown_key(name: str):
    assert warnings(EXAMPLES[name]) == []


STEP: list[tuple[dict[str, Any], str]] = [
    ({"cwd": "web"}, 'the key "cwd" has no effect: begin "cmd" with "cd FOLDER || exit"'),
    ({"timeout_second": 5}, 'the key "timeout_second" has no effect: did you mean "timeout_seconds"?'),
    ({"timeout": 5}, 'the key "timeout" has no effect: did you mean "timeout_seconds"?'),
    ({"lable": "A"}, 'the key "lable" has no effect: did you mean "label"?'),
    ({"Image": "debian:12"}, 'the key "Image" has no effect: did you mean "image"?'),
    ({"xyzzy": None}, 'the key "xyzzy" has no effect'),
    ({"": 1}, 'the key "" has no effect'),
    ({"a\n\x1b[31m": 1}, 'the key "a\\n\\u001b[31m" has no effect'),
    (
        {"retry": {"limit": 2}},
        'the key "retry" has no effect: it belongs in "runner_args" of the step: "runner_args": {"retry": …}',
    ),
    ({"runner": "docker"}, 'the key "runner" has no effect: each step runs in a VM of this service'),
    (
        {"runner_args": {"memory": 4}},
        'the key "runner_args.memory" has no effect: did you mean "memory_gb" in "runner_args"?',
    ),
    ({"runner_args": {"artefacts": ["x"]}}, 'the key "runner_args.artefacts" has no effect: did you mean "artifacts"?'),
    (
        {"runner_args": {"image": "a"}},
        'the key "runner_args.image" has no effect: it belongs in the step, beside "runner_args"',
    ),
    (
        {"runner_args": {"retry": {"limit": 1, "exit_code": [1]}}},
        'the key "runner_args.retry.exit_code" has no effect: did you mean "exit_codes"?',
    ),
    (
        {"runner_args": {"soft_fail": {"exit_codes": [1], "codes": 1}}},
        'the key "runner_args.soft_fail.codes" has no effect: did you mean "exit_codes"?',
    ),
    (
        {"cache": {"policy": "compose", "key": "k", "sub_policies": [{"policy": "on_change", "path": ["x"]}]}},
        'the key "cache.sub_policies[0].path" has no effect: did you mean "paths"?',
    ),
]


@pytest.mark.parametrize(("members", "warning"), STEP)
def test_a_key_of_a_step_is_named(members: dict[str, Any], warning: str):
    for document in (graph(node("first"), node("a", **members)), flat(command("first"), command("a", **members))):
        assert warnings(document) == [f'step "a": {warning}']


@pytest.mark.parametrize(
    ("document", "warning"),
    [
        (flat(command("a"), envs={}), 'the key "envs" has no effect: did you mean "env"?'),
        (graph(node("a"), env={"A": "b"}), 'the key "env" has no effect: it belongs in each node, as "env"'),
        (
            flat(command("a"), {"type": "wait", "continue_on_failures": True}, command("b")),
            'the key "steps[1].continue_on_failures" has no effect: did you mean "continue_on_failure"?',
        ),
        (
            graph(node("a"), node("b"), edges=[[0, 1, "depends_on", {"soft": True}]]),
            'the key "graph.edges[0][3].soft" has no effect',
        ),
        (
            {"version": "0", "graph": {"nodes": [{**node("a"), "image": "x"}], "edge": []}},
            'the key "graph.edge" has no effect: did you mean "edges"?',
        ),
    ],
)
def test_a_key_of_the_document_is_named(document: object, warning: str):
    assert warning in warnings(document)


def test_what_the_other_shape_says_elsewhere_is_told_so():
    found = warnings(graph({"step": {"key": "a", "cmd": "a", "type": "command", "env": {}, "builds_in": "b"}}))
    assert found == [
        'step "a": the key "env" has no effect: it belongs beside the "step", in the node',
        'step "a": the key "builds_in" has no effect: an edge of the kind "builds_in" says it',
    ]


def test_at_most_a_hundred_keys_of_bounded_length_are_named():
    found = warnings(flat(command("a", **{f"{'x' * 10_000}{number}": 1 for number in range(200)})))
    assert len(found) == 100
    assert max(map(len, found)) < 400


@pytest.mark.parametrize("key", sorted(KNOWN_KEYS["command"] - {"type", "runner"} | RUNNER_ARGS))
def test_every_known_key_of_a_step_is_read(key: str):
    """A key that nobody reads must not count as known."""
    wrong = {key: [[]]}
    with pytest.raises(IrError):
        planned(flat({**command("a"), **({"runner_args": wrong} if key in RUNNER_ARGS else wrong)}))
