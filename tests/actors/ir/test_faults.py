"""Documents that are refused, and the fault that is reported: the first in document order."""

from __future__ import annotations

import json

import pytest

from actors.ir import IrError, IrSettings, load
from storage import BuildErrorCode
from tests.actors.ir.documents import command, flat, graph, node, planned, refusal, wait

ONE = graph(node("a"))


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("1", '"1"'),
        (0, "0"),
        ("", '""'),
        (None, "null"),
        (False, "false"),
        (0.0, "0.0"),
        (["0"], "a list"),
        ({"0": 0}, "an object"),
        ('0"\n', '"0\\"\\n"'),
        ("v" * 5000, f'"{"v" * 199}…"'),
        ("\x9b\u202e", '"\\u009b\\u202e"'),
        (10**3000, f"1{'0' * 199}…"),
    ],
)
def test_another_version_is_refused(version: object, shown: str):
    assert refusal({**ONE, "version": version}) == ("bad_version", f'expected version "0", got {shown}')


def test_no_version_is_refused():
    assert refusal({"graph": ONE["graph"]}) == ("bad_version", 'expected version "0", got nothing')


def test_the_version_is_looked_at_before_all_else():
    assert refusal({"graph": 5, "steps": 7, "version": "1"})[0] == "bad_version"


@pytest.mark.parametrize("document", [[], "0", 0, None, True])
def test_a_document_other_than_an_object_is_refused(document: object):
    assert refusal(json.dumps(document)) == ("invalid_ir", "$: expected an object")


def test_a_document_is_of_one_shape():
    assert refusal({"version": "0"}) == ("invalid_ir", '$: expected "graph" or "steps"')
    assert refusal({"version": "0", "graph": None}) == ("invalid_ir", '$: expected "graph" or "steps"')
    both = {**ONE, "steps": [command("a")]}
    assert refusal(both) == ("invalid_ir", 'steps: expected "graph" or "steps", not both')
    assert planned({**ONE, "steps": None}) == planned(ONE)


@pytest.mark.parametrize("document", [ONE, flat(command("a"))])
def test_members_of_the_document_are_checked_in_both_shapes(document: dict[str, object]):
    assert planned({**document, "timeout_seconds": 5400, "other": []}).timeout_seconds == 5400
    assert planned({**document, "timeout_seconds": None, "default_image": None}).timeout_seconds is None
    assert refusal({**document, "timeout_seconds": 0}) == (
        "invalid_ir",
        "timeout_seconds: expected a whole number from 1 to 2147483647",
    )
    assert refusal({**document, "default_image": "a b"}) == (
        "invalid_ir",
        'default_image: expected an image name in place of "a b"',
    )


@pytest.mark.parametrize(
    "document", [graph(node("a"), node("b"), node("a")), flat(command("a"), wait(), command("b"), command("a"))]
)
def test_two_steps_of_one_key_are_refused(document: dict[str, object]):
    assert refusal(document) == ("duplicate_key", 'duplicate step key "a"')


def test_messages_hold_keys_in_printable_form_and_bounded():
    key = 'q"' + "k" * 250
    assert refusal(graph(node(key), node(key)))[1] == f'duplicate step key "q\\"{"k" * 196}…"'


def test_more_jobs_than_the_limit_are_refused():
    limits = IrSettings(max_jobs=3)
    nodes = [node(str(number)) for number in range(4)]
    commands = [command(str(number)) for number in range(4)]
    assert len(planned(graph(*nodes[:3]), limits).jobs) == 3
    assert len(planned(flat(*commands[:2], wait(), wait(), commands[2]), limits).jobs) == 3
    assert refusal(graph(*nodes), limits) == ("invalid_ir", "graph.nodes: expected at most 3 steps")
    assert refusal(flat(*commands), limits) == ("invalid_ir", "steps: expected at most 3 commands")


def test_a_longer_text_than_the_limit_is_refused_unread():
    text = json.dumps({**ONE, "note": "ü" * 50}, ensure_ascii=False)
    size = len(text.encode())
    assert load(text, IrSettings(max_bytes=size)).jobs
    for limit in (size - 1, len(text), 10):
        assert refusal(text, IrSettings(max_bytes=limit)) == ("invalid_ir", f"$: expected at most {limit} bytes")
    assert refusal("{" * 100, IrSettings(max_bytes=99)) == ("invalid_ir", "$: expected at most 99 bytes")
    assert refusal("\ud800" * 4, IrSettings(max_bytes=3))[0] == "invalid_ir"


BAD_NODE = node("x", cmd="")
BAD_NODE_FAULT = "step.cmd: expected a non-empty string"


def test_of_several_faults_the_first_in_the_document_is_reported():
    assert refusal(graph(node("a"), BAD_NODE, node("a"), edges=[[9, 0, "builds_in"]], timeout_seconds=0)) == (
        "invalid_ir",
        f"graph.nodes[1].{BAD_NODE_FAULT}",
    )
    assert refusal(graph(node("a"), node("a"), BAD_NODE, edges=[[9, 0, "builds_in"]]))[0] == "duplicate_key"
    assert refusal(graph(node("a"), edges=[[9, 0, "builds_in"], "no edge"]))[0] == "unknown_dependency"
    assert refusal({"version": "0", "timeout_seconds": 0, "steps": []})[1].startswith("timeout_seconds:")
    assert refusal({"version": "0", "steps": [], "timeout_seconds": 0})[1].startswith("steps:")
    assert refusal(flat(command("a", builds_in="z"), command("a", cmd="")))[0] == "unknown_dependency"


def test_faults_of_members_come_in_order_and_missing_ones_last():
    assert refusal(flat({"type": "command", "timeout_seconds": 0, "cmd": ""}))[1].startswith("steps[0].timeout_seconds")
    assert refusal(flat({"type": "command", "cmd": "", "timeout_seconds": 0}))[1].startswith("steps[0].cmd")
    assert refusal(flat({"type": "command", "timeout_seconds": 1}))[1].startswith("steps[0].key")
    assert refusal(flat(command("a"), {"type": "command", "key": "a", "cmd": ""}))[0] == "duplicate_key"
    assert refusal(flat(command("a"), {"type": "command", "cmd": "", "key": "a"}))[0] == "invalid_ir"


def test_a_cycle_closed_before_another_fault_comes_first():
    loop = [[0, 1, "depends_on"], [1, 0, "depends_on"]]
    nodes = (node("a"), node("b"))
    assert refusal(graph(*nodes, edges=[*loop, [0, 9, "depends_on"]]))[0] == "cycle"
    assert refusal(graph(*nodes, edges=[loop[0], [0, 9, "depends_on"], loop[1]]))[0] == "unknown_dependency"
    assert refusal(graph(*nodes, edges=loop, timeout_seconds=0))[0] == "cycle"
    assert refusal(graph(node("a"), BAD_NODE, edges=loop))[0] == "invalid_ir"
    mutual = (command("a", builds_in="b"), command("b", builds_in="a"))
    assert refusal(flat(*mutual, command("c", cmd="")))[0] == "cycle"
    assert refusal(flat(mutual[0], command("c", cmd=""), mutual[1]))[0] == "invalid_ir"


def test_the_last_of_two_members_of_one_name_counts():
    text = '{"version": "1", "steps": [{"type": "command", "key": "a", "cmd": "", "cmd": "true"}], "version": "0"}'
    assert load(text, IrSettings()).jobs[0].command == "true"


def test_an_error_says_its_message():
    error = IrError(BuildErrorCode.CYCLE, "round and round")
    assert (str(error), error.code, error.message) == ("round and round", "cycle", "round and round")


def test_an_error_has_all_faults_with_their_paths():
    edges = [[0, 1, "depends_on"], [0, 1, "order"], [1, 0, "depends_on"], [0, 9, "depends_on"]]
    document = graph(node("a", cmd="", image=""), node("a"), edges=edges, timeout_seconds=0)
    with pytest.raises(IrError) as caught:
        load(json.dumps(document), IrSettings())
    assert [(fault.code, fault.path) for fault in caught.value.faults] == [
        ("invalid_ir", ("graph", "nodes", 0, "step", "cmd")),
        ("invalid_ir", ("graph", "nodes", 0, "step", "image")),
        ("duplicate_key", ("graph", "nodes", 1, "step", "key")),
        ("invalid_ir", ("graph", "edges", 1, 2)),
        ("unknown_dependency", ("graph", "edges", 3)),
        ("cycle", ("graph", "edges")),
        ("invalid_ir", ("timeout_seconds",)),
    ]
    assert (caught.value.code, caught.value.message) == (caught.value.faults[0].code, caught.value.faults[0].message)


def test_of_very_many_faults_a_hundred_are_kept():
    with pytest.raises(IrError) as caught:
        load(json.dumps(flat(*[command(str(number), cmd="", label=7) for number in range(400)])), IrSettings())
    assert len(caught.value.faults) == 100
