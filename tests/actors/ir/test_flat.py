"""The flat shape, mainly its waits."""

from __future__ import annotations

import pytest

from actors.ir import IrSettings
from tests.actors.ir.documents import command, dependencies, flat, lines, planned, refusal, wait

a, b, c, d = (command(key) for key in "abcd")
lenient = wait(continue_on_failure=True)


def test_commands_without_a_wait_depend_on_nothing():
    assert dependencies(planned(flat(a, b))) == {"a": "-", "b": "-"}


def test_a_wait_makes_later_commands_depend_on_all_earlier_ones():
    assert dependencies(planned(flat(a, b, wait(), c, wait(), d))) == {"a": "-", "b": "-", "c": "a b", "d": "a b c"}


@pytest.mark.parametrize("waits", [[wait()], [wait(), wait()], [wait(continue_on_failure=False)] * 3])
def test_consecutive_waits_are_one_wait(waits: list[object]):
    assert dependencies(planned(flat(a, *waits, b))) == {"a": "-", "b": "a"}


def test_leading_and_trailing_waits_do_nothing():
    assert planned(flat(wait(), lenient, a, b, wait(), lenient)) == planned(flat(a, b))


def test_a_wait_may_continue_on_failure():
    assert dependencies(planned(flat(a, b, lenient, c))) == {"a": "-", "b": "-", "c": "a? b?"}
    assert dependencies(planned(flat(a, wait(continue_on_failure=None), b)))["b"] == "a"


@pytest.mark.parametrize("waits", [[lenient, wait()], [wait(), lenient]])
def test_of_consecutive_waits_the_strict_one_decides(waits: list[object]):
    assert dependencies(planned(flat(a, *waits, b)))["b"] == "a"


def test_a_failure_before_a_strict_wait_stops_all_later_steps():
    """A later lenient wait does not change that."""
    assert dependencies(planned(flat(a, wait(), b, lenient, c)))["c"] == "a b?"
    assert dependencies(planned(flat(a, lenient, b, wait(), c)))["c"] == "a b"
    assert dependencies(planned(flat(a, lenient, b, lenient, c)))["c"] == "a? b?"


def test_a_step_builds_in_another_by_key():
    assert dependencies(planned(flat(a, command("b", builds_in="a"), command("c", builds_in=None)))) == {
        "a": "-",
        "b": "a*",
        "c": "-",
    }


def test_builds_in_and_a_wait_of_one_pair_are_one_dependency():
    assert dependencies(planned(flat(a, b, wait(), command("c", builds_in="a"))))["c"] == "a* b"
    assert dependencies(planned(flat(a, b, lenient, command("c", builds_in="b"))))["c"] == "a? b*"


def test_builds_in_may_point_forwards_and_the_order_follows():
    assert lines(planned(flat(command("a", builds_in="c"), b, c))) == [
        "b | true | - | -",
        "c | true | - | -",
        "a | true | - | c*",
    ]


def test_jobs_after_a_moved_one_keep_their_dependencies():
    assert lines(planned(flat(command("a", builds_in="b"), b, wait(), c))) == [
        "b | true | - | -",
        "a | true | - | b*",
        "c | true | - | b a",
    ]


@pytest.mark.parametrize("parent", ["z", "", "A", "x" * 300])
def test_building_in_an_unknown_step_is_an_unknown_dependency(parent: str):
    name = parent if len(parent) < 200 else "x" * 199 + "…"
    assert refusal(flat(a, command("b", builds_in=parent), c)) == (
        "unknown_dependency",
        f'step "b" builds in unknown step "{name}"',
    )


def test_a_step_env_lies_over_the_documents_env():
    document = flat(a, command("b", env={"A": "step", "C": "3"}), command("c", env=None), env={"A": "1", "B": "2"})
    assert [job.env for job in planned(document).jobs] == [
        {"A": "1", "B": "2"},
        {"A": "step", "B": "2", "C": "3"},
        {"A": "1", "B": "2"},
    ]
    assert planned(flat(a, env=None)).jobs[0].env == {}


def test_the_documents_env_may_be_after_the_steps():
    document = {"version": "0", "steps": [command("a", env={"B": "2"})], "env": {"A": "1"}}
    assert planned(document).jobs[0].env == {"A": "1", "B": "2"}
    document = {"version": "0", "steps": [command("a", env={"B": "2"})], "env": {"A": 1}}
    assert refusal(document) == ("invalid_ir", "env.A: expected a string")


def test_the_image_is_the_disks_else_the_steps_or_documents():
    steps = (command("a", image="debian:12"), b, command("c", builds_in="a", image="debian:13"), wait(), d)
    jobs = planned(flat(*steps, default_image="ubuntu:24.04")).jobs
    assert [job.image for job in jobs] == ["debian:12", "ubuntu:24.04", "debian:12", "ubuntu:24.04"]
    assert [job.image for job in planned(flat(*steps)).jobs] == ["debian:12", None, "debian:12", None]


def test_a_wait_ignores_members_of_commands():
    assert dependencies(planned(flat(a, {**wait(), "key": "a", "cmd": "", "builds_in": "z"}, b)))["b"] == "a"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({}, "steps: expected a list"),
        ([], "steps: expected at least one command"),
        ([wait(), lenient], "steps: expected at least one command"),
        (["a"], "steps[0]: expected an object"),
        ([{"key": "a", "cmd": "true"}], 'steps[0].type: expected "command" or "wait"'),
        ([a, {"type": "block"}], 'steps[1].type: expected "command" or "wait"'),
        ([a, {"type": ["wait"]}], 'steps[1].type: expected "command" or "wait"'),
        ([a, wait(continue_on_failure="yes")], "steps[1].continue_on_failure: expected true or false"),
        ([a, command("b", builds_in=0)], "steps[1].builds_in: expected the key of a step"),
        ([command("a", env={"A": None})], "steps[0].env.A: expected a string"),
    ],
)
def test_malformed_steps_are_refused_with_their_path(steps: object, message: str):
    assert refusal({"version": "0", "steps": steps}) == ("invalid_ir", message)


def test_the_documents_env_counts_for_each_job():
    limits = IrSettings(max_env_bytes=10)
    assert planned(flat(command("a", env={"B": "67890"}), env={"A": "345"}), limits).jobs[0].env["B"] == "67890"
    assert refusal(flat(command("a", env={"B": "678901"}), env={"A": "345"}), limits) == (
        "invalid_ir",
        "steps[0].env: expected at most 10 bytes of names and values",
    )


def test_a_short_document_cannot_become_more_env_than_a_long_one():
    document = flat(*(command(str(number)) for number in range(20)), env={"A": "x" * 100})
    assert planned(document, IrSettings(max_bytes=20 * 101)).jobs
    assert refusal(document, IrSettings(max_bytes=20 * 101 - 1)) == (
        "invalid_ir",
        "steps[19]: expected at most 2019 bytes of env in all steps together",
    )


def test_thousands_of_waits_change_nothing():
    assert planned(flat(a, *[wait()] * 50_000, b)) == planned(flat(a, wait(), b))
