"""The fields of a step, which mean the same in both shapes."""

from __future__ import annotations

from typing import Any

import pytest

from actors.ir import IrSettings
from storage import NewJob, Shape
from tests.actors.ir.documents import command, flat, graph, node, planned, refusal
from tests.records import new_job


def job(limits: IrSettings | None = None, **step: Any) -> NewJob:
    """Return the job of a one-step pipeline, after checking that both shapes agree."""
    step = {"key": "a", "cmd": "true", **step}
    of_graph = planned(graph(node(**step)), limits or IrSettings()).jobs[0]
    of_flat = planned(flat(command(**step)), limits or IrSettings()).jobs[0]
    assert of_graph == of_flat
    return of_graph


def fault(limits: IrSettings | None = None, **step: Any) -> str:
    """Return the message without the step's path, after checking that both shapes agree."""
    step = {"key": "a", "cmd": "true", **step}
    of_graph = refusal(graph(node(**step)), limits or IrSettings())
    of_flat = refusal(flat(command(**step)), limits or IrSettings())
    assert of_graph[0] == of_flat[0] == "invalid_ir"
    below = of_graph[1].removeprefix("graph.nodes[0].step.")
    assert of_flat[1].removeprefix("steps[0].") == below
    return below


def args(**runner_args: Any) -> NewJob:
    return job(runner_args=runner_args)


def test_a_bare_step_has_the_defaults():
    assert job() == new_job("a", name="true", image=None)


@pytest.mark.parametrize("name", ["label", "image", "timeout_seconds", "cache", "runner", "runner_args"])
def test_null_is_the_same_as_absent(name: str):
    assert job(**{name: None}) == job()


def test_unknown_members_and_the_runner_are_ignored():
    assert job(runner=["any", 1], colour="red", runner_args={"queue": {"deep": [1]}}) == job()


@pytest.mark.parametrize("label", ["Unit tests", ":go: test"])
def test_a_job_is_named_by_its_label(label: str):
    assert job(label=label).name == label


@pytest.mark.parametrize("label", [None, "", "  "])
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("pytest -q", "pytest -q"),
        ("\n  \n\tmake  -j4 \t all\nmake install\n", "make -j4 all"),
        ("echo \x1b[31m\u202ered", "echo [31m red"),
        ("echo " + "x" * 75, "echo " + "x" * 75),
        ("echo " + "x" * 76, "echo " + "x" * 74 + "…"),
        ("\x01\x1b", "a"),
    ],
)
def test_without_a_label_a_job_is_named_by_its_first_line(label: str | None, command: str, name: str):
    assert job(label=label, cmd=command).name == name


def test_keys_may_hold_quotes_spaces_and_any_script():
    assert job(key='say "ok" \\ 测试 🚀').step_key == 'say "ok" \\ 测试 🚀'
    assert job(key="k" * 255).step_key == "k" * 255


def test_a_command_may_have_many_lines_and_just_reach_the_limit():
    assert job(cmd="set -e\nmake\ttest\r\n").command == "set -e\nmake\ttest\r\n"
    assert job(IrSettings(max_command_bytes=6), cmd="äöü").command == "äöü"


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("key", 7, "a non-empty string"),
        ("key", None, "a non-empty string"),
        ("key", "", "a non-empty string"),
        ("key", " \u00a0", "a non-empty string"),
        ("key", "a\nb", "no control characters"),
        ("key", "a\x1b[31m", "no control characters"),
        ("key", "a\x9b", "no control characters"),
        ("key", "a\u202eb", "no control characters"),
        ("key", "k" * 256, "at most 255 characters"),
        ("cmd", None, "a non-empty string"),
        ("cmd", ["make"], "a non-empty string"),
        ("cmd", "", "a non-empty string"),
        ("cmd", "\n \t", "a non-empty string"),
        ("cmd", "a\0b", "no NUL character"),
        ("cmd", "x" * (256 * 1024 + 1), "at most 262144 bytes"),
        ("label", 1, "a string"),
        ("label", "two\nlines", "no control characters"),
        ("label", "l" * 100_000, "at most 255 characters"),
        ("image", "", "a non-empty string"),
        ("image", {}, "a non-empty string"),
        ("image", "ubuntu 24.04", 'an image name in place of "ubuntu 24.04"'),
        ("image", "../etc", 'an image name in place of "../etc"'),
        ("image", "a/../b", 'an image name in place of "a/../b"'),
        ("image", "-rf", 'an image name in place of "-rf"'),
        ("image", "a\nb", "no control characters"),
        ("timeout_seconds", 0, "a whole number from 1 to 2147483647"),
        ("timeout_seconds", -5, "a whole number from 1 to 2147483647"),
        ("timeout_seconds", 2**31, "a whole number from 1 to 2147483647"),
        ("timeout_seconds", True, "a whole number from 1 to 2147483647"),
        ("timeout_seconds", 60.0, "a whole number from 1 to 2147483647"),
        ("timeout_seconds", "60", "a whole number from 1 to 2147483647"),
        ("cache", "forever", "an object"),
        ("runner_args", [], "an object"),
    ],
)
def test_a_wrong_member_is_refused_with_its_path(member: str, value: object, expected: str):
    assert fault(**{member: value}) == f"{member}: expected {expected}"


@pytest.mark.parametrize("member", ["key", "cmd"])
def test_a_missing_member_is_refused_like_an_empty_one(member: str):
    step = {"key": "a", "cmd": "true"}
    del step[member]
    assert refusal({"version": "0", "graph": {"nodes": [{"step": step}]}}) == (
        "invalid_ir",
        f"graph.nodes[0].step.{member}: expected a non-empty string",
    )


@pytest.mark.parametrize(
    "name", ["ubuntu:24.04", "debian:12", "ghcr.io/Org/img-x_y@sha256:0a", "localhost:5000/a", "a+b"]
)
def test_image_names_of_all_usual_forms_are_taken(name: str):
    assert job(image=name).image == name


def test_the_limit_of_a_command_counts_utf8_bytes():
    assert fault(IrSettings(max_command_bytes=5), cmd="äöü") == "cmd: expected at most 5 bytes"


@pytest.mark.parametrize("policy", ["forever", "ttl", "on_change", "compose"])
def test_a_cache_has_a_policy_and_a_key(policy: str):
    cached = job(cache={"policy": policy, "key": "0a1b", "env_keys": [], "paths": 7})
    assert (cached.cache_policy, cached.cache_key) == (policy, "0a1b")


@pytest.mark.parametrize("cache", [{"policy": "none", "key": "k"}, {"policy": "ttl"}, {"policy": "ttl", "key": None}])
def test_without_a_policy_or_a_key_nothing_is_cached(cache: dict[str, object]):
    assert job(cache=cache).cache_key is None


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        ({}, 'cache.policy: expected "none", "forever", "ttl", "on_change" or "compose"'),
        ({"policy": "always"}, 'cache.policy: expected "none", "forever", "ttl", "on_change" or "compose"'),
        ({"policy": None}, 'cache.policy: expected "none", "forever", "ttl", "on_change" or "compose"'),
        ({"policy": "ttl", "key": ""}, "cache.key: expected a non-empty string"),
        ({"policy": "ttl", "key": 5}, "cache.key: expected a non-empty string"),
        ({"policy": "none", "key": 5}, "cache.key: expected a non-empty string"),
    ],
)
def test_a_bad_cache_is_refused_with_its_path(cache: dict[str, object], message: str):
    assert fault(cache=cache) == message


def test_a_shape_is_of_the_runner_args_then_of_the_limits():
    assert args(cpu=1, memory_gb=8, disk_gb=100).shape == Shape(1, 8, 100)
    assert args(memory_gb=16, cpu=None).shape == Shape(2, 16, 20)
    assert job(IrSettings(default_shape=Shape(3, 5, 7)), runner_args={"cpu": 4}).shape == Shape(4, 5, 7)


@pytest.mark.parametrize(
    ("size", "value", "most"),
    [
        ("cpu", 17, 16),
        ("cpu", 0, 16),
        ("cpu", True, 16),
        ("cpu", 2.0, 16),
        ("memory_gb", 65, 64),
        ("disk_gb", "9", 200),
    ],
)
def test_a_shape_outside_the_limits_is_refused(size: str, value: object, most: int):
    assert fault(runner_args={size: value}) == f"runner_args.{size}: expected a whole number from 1 to {most}"


def test_policies_are_kept_as_given():
    assert args(retry={"limit": 2}).retry_policy == {"limit": 2}
    assert args(retry={"limit": 0, "exit_codes": None, "other": 1}).retry_policy == {"limit": 0}
    whole = {"limit": 10, "exit_codes": [1, 137], "backoff_seconds": 0}
    assert args(retry=whole).retry_policy == whole
    assert args(soft_fail={"exit_codes": [3], "other": 1}).soft_fail_policy == {"exit_codes": [3]}
    assert args(soft_fail={"exit_codes": []}).soft_fail_policy == {"exit_codes": []}


def test_soft_fail_true_is_any_exit_code_and_false_is_none():
    assert args(soft_fail=True).soft_fail_policy == {"exit_codes": None}
    assert args(soft_fail=False).soft_fail_policy is None


def test_artifacts_secrets_and_network_are_kept():
    some = args(artifacts=["dist/**", "./a b.txt", "..x/y.."], secrets=["TOKEN", "_k1"], network="off")
    assert some.artifacts == ("dist/**", "./a b.txt", "..x/y..")
    assert some.secrets == ("TOKEN", "_k1")
    assert not some.network
    assert args(network="on").network


@pytest.mark.parametrize(
    ("runner_args", "message"),
    [
        ({"retry": 3}, "retry: expected an object"),
        ({"retry": {}}, "retry.limit: expected a whole number from 0 to 10"),
        ({"retry": {"limit": 11}}, "retry.limit: expected a whole number from 0 to 10"),
        ({"retry": {"limit": -1}}, "retry.limit: expected a whole number from 0 to 10"),
        ({"retry": {"limit": True}}, "retry.limit: expected a whole number from 0 to 10"),
        ({"retry": {"limit": 1, "exit_codes": 1}}, "retry.exit_codes: expected a list"),
        (
            {"retry": {"limit": 1, "exit_codes": [1, "2"]}},
            "retry.exit_codes[1]: expected a whole number from -2147483647 to 2147483647",
        ),
        (
            {"retry": {"limit": 1, "backoff_seconds": -1}},
            "retry.backoff_seconds: expected a whole number from 0 to 2147483647",
        ),
        ({"soft_fail": "yes"}, 'soft_fail: expected true or an object with "exit_codes"'),
        ({"soft_fail": 1}, 'soft_fail: expected true or an object with "exit_codes"'),
        ({"soft_fail": {}}, "soft_fail.exit_codes: expected a list"),
        ({"artifacts": "dist"}, "artifacts: expected a list"),
        ({"artifacts": ["a", ""]}, "artifacts[1]: expected a non-empty string"),
        ({"artifacts": ["/etc/passwd"]}, "artifacts[0]: expected a path inside the workspace"),
        ({"artifacts": ["a/../../b"]}, "artifacts[0]: expected a path inside the workspace"),
        ({"artifacts": [".."]}, "artifacts[0]: expected a path inside the workspace"),
        ({"artifacts": ["a"] * 101}, "artifacts: expected at most 100 globs"),
        ({"artifacts": ["a\0b"]}, "artifacts[0]: expected no control characters"),
        ({"secrets": {}}, "secrets: expected a list"),
        ({"secrets": ["A=B"]}, 'secrets[0]: expected a variable name of letters, digits and "_" in place of "A=B"'),
        ({"secrets": [5]}, 'secrets[0]: expected a variable name of letters, digits and "_" in place of 5'),
        ({"network": "none"}, 'network: expected "on" or "off"'),
        ({"network": False}, 'network: expected "on" or "off"'),
    ],
)
def test_bad_runner_args_are_refused_with_their_path(runner_args: dict[str, object], message: str):
    assert fault(runner_args=runner_args) == f"runner_args.{message}"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ([], "env: expected an object"),
        ({"A": 1}, "env.A: expected a string"),
        ({"A": None}, "env.A: expected a string"),
        ({"A": "a\0b"}, "env.A: expected no NUL character"),
        ({"A\x1f": None}, 'env: expected a variable name of letters, digits and "_" in place of "A\\u001f"'),
        *(
            ({name: "x"}, f'env: expected a variable name of letters, digits and "_" in place of {shown}')
            for name, shown in [
                ("", '""'),
                ("A=B", '"A=B"'),
                ("A\0", '"A\\u0000"'),
                ("A\n", '"A\\n"'),
                ("1A", '"1A"'),
                ("A-B", '"A-B"'),
                ("Ä", '"Ä"'),
                ("A" * 256, f'"{"A" * 199}…"'),
            ]
        ),
    ],
)
def test_a_bad_env_is_refused_with_its_path(env: object, message: str):
    assert refusal(graph({**node("a"), "env": env})) == ("invalid_ir", f"graph.nodes[0].{message}")
    assert refusal(flat(command("a", env=env))) == ("invalid_ir", f"steps[0].{message}")
    assert refusal(flat(command("a"), env=env)) == ("invalid_ir", message)


def test_env_values_may_hold_anything_but_nul():
    env = {"A": "", "B_2": "two\nlines = ü\x1b", "_": "x"}
    assert planned(graph(node("a", env=env))).jobs[0].env == env


def test_the_limit_of_env_counts_utf8_bytes_of_names_and_values():
    document = graph(node("a", env={"AB": "ü", "C": "12345"}))
    assert planned(document, IrSettings(max_env_bytes=10)).jobs
    assert refusal(document, IrSettings(max_env_bytes=9)) == (
        "invalid_ir",
        "graph.nodes[0].env: expected at most 9 bytes of names and values",
    )
