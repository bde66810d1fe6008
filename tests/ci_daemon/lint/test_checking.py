"""Mistakes and warnings of pipelines, each with its line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.ir import IrSettings, PipelineFile
from actors.render import DeclaredPipeline, RenderFailed, in_folder
from ci_daemon.lint import PipelineFiles, check_declared, check_ir, refused
from tests.actors.ir.documents import graph, node
from tests.rendering import documents_of

FILE = """import harmont as hm

@hm.pipeline("ci")
def ci():
    base = hm.sh("make", key="make")
    return (
        base
        .sh("make check", label="Check"),
        base.sh("true", label="Twin"),
        base.sh("false", label="Twin"),
    )
"""


def declared(*nodes: Any, triggers: tuple[Any, ...] = (), **members: Any) -> DeclaredPipeline:
    return DeclaredPipeline("ci", "CI", allow_manual=True, triggers=triggers, definition=graph(*nodes, **members))


def checked(pipeline: DeclaredPipeline) -> tuple[list[str], list[str]]:
    """Return the mistakes and the warnings of a pipeline of `FILE`, in a project with a lock file."""
    files = PipelineFiles({".hm/a.py": FILE, ".hm/broken.py": "def f(:"})
    linted = check_declared(pipeline, files, IrSettings(), {"app/uv.lock"})
    assert (linted.plan is None) == bool(linted.mistakes)
    return list(map(str, linted.mistakes)), list(map(str, linted.warnings))


def test_all_mistakes_are_told_with_the_line_of_their_step():
    nodes = (
        node("make", cmd="", image="no image"),
        node("check", cmd="make check", label="Check", timeout_seconds=0, runner_args={"cpu": 0, "retry": {}}),
        node("twin", cmd="computed", label="Twin"),
        node("twin", cmd="computed", label="Twin"),
    )
    mistakes, _ = checked(declared(*nodes, edges=[[0, 1, "builds_in"], [1, 0, "builds_in"], [0, 9, "depends_on"]]))
    assert mistakes == [
        '.hm/a.py:5: invalid_ir: step "make": cmd: expected a non-empty string',
        '.hm/a.py:5: invalid_ir: step "make": image: expected an image name in place of "no image"',
        '.hm/a.py:8: invalid_ir: step "check": timeout_seconds: expected a whole number from 1 to 2147483647',
        '.hm/a.py:8: invalid_ir: step "check": runner_args.cpu: expected a whole number from 1 to 16',
        '.hm/a.py:8: invalid_ir: step "check": runner_args.retry.limit: expected a whole number from 0 to 10',
        '.hm/a.py:3: duplicate_key: step "twin": duplicate step key "twin"',
        '.hm/a.py:3: cycle: dependency cycle through "make" -> "check" -> "make"',
        '.hm/a.py:3: unknown_dependency: unknown step "9" depends on step "make"',
    ]


def test_warnings_are_about_what_certainly_has_no_effect():
    nodes = (
        node("make", image="debian:12", cache={"policy": "compose", "key": "k", "sub_policies": [
            {"policy": "forever"}, {"policy": "on_change", "paths": ["gone.lock", "./app/", "app/uv.lock", "*.x"]},
        ]}),
        node("check", label="Check", image="alpine:3", timeout_seconds=61, runner_args={"retries": 1, "cpu": 1}),
    )  # fmt: skip
    triggers = ({"event": "push", "branches": []}, {"event": "push", "tags": ["v*"]}, {"event": "merge"})
    mistakes, warnings = checked(declared(*nodes, edges=[[0, 1, "builds_in"]], triggers=triggers, timeout_seconds=60))
    assert mistakes == []
    assert [warning.replace(".hm/a.py:", "") for warning in warnings] == [
        '8: step "check": the key "runner_args.retries" has no effect: did you mean "retry"?',
        "3: a trigger with an empty list of branches never matches",
        '3: there is no event "merge" that triggers builds',
        '5: step "make": on_change names gone.lock, which is not in the source: it never changes the key of the cache',
        '8: step "check": the image alpine:3 is not used: the step starts from the disk of its parent',
        '8: step "check": its time-out of 61 s is never reached: the build ends after 60 s',
    ]


def test_a_failure_that_a_later_line_hides_is_a_warning():
    hidden = "\nfalse\necho done\n"
    _, warnings = checked(declared(node("check", cmd=hidden, label="Check"), node("make", cmd="set -e\nfalse\ntrue")))
    (warning,) = warnings
    assert warning.startswith('.hm/a.py:8: step "check": a line that fails does not fail the step')
    steps = {"version": "0", "steps": [{"type": "wait"}, {"type": "command", "key": "a", "cmd": hidden}]}
    (found,) = check_ir("ci", json.dumps(steps), None, IrSettings()).warnings
    assert str(found).startswith('step "a": a line that fails does not fail the step')
    assert check_ir("ci", json.dumps(steps), None, IrSettings(), strict_shell=True).warnings == ()


def test_a_step_with_a_folder_has_the_line_of_its_call():
    files = PipelineFiles({".hm/a.py": "hm.sh(\n  'make',\n  cwd='a b',\n)"})
    assert str(files.place("ci", {"cmd": in_folder("make", "a b")})) == ".hm/a.py:1"


def test_a_job_in_python_over_a_limit_has_the_line_of_its_call():
    text = """from ci_daemon.language import job, pipeline

@pipeline("ci")
def ci():
    a = job("a", run="x")
    (
        a
        .then("b", run="x", memory="9999GB")
    )
"""
    (document,) = documents_of(text)
    entry = PipelineFile.rendered(document).declared({}, 0)
    pipeline = DeclaredPipeline("ci", "CI", allow_manual=True, triggers=(), definition=entry["definition"])
    (mistake,) = check_declared(pipeline, PipelineFiles({".hm/a.py": text}), IrSettings()).mistakes
    assert str(mistake) == ".hm/a.py:8: invalid_ir: jobs.b.memory: expected at most 64GB"


DOCUMENT = """{"version": "0", "steps": [
  {"type": "command",
   "key": "a", "cmd": "echo [{", "timeout_seconds": {}, "timeout_seconds":
   0},
  {"type": "command", "key": "b", "cmd": "true",
   "builds_in": "z"},
  {"type": "command", "key": "c"}
]}
"""


def test_mistakes_in_json_have_the_line_of_the_value():
    linted = check_ir("ci", DOCUMENT, "ci.json", IrSettings())
    assert [(each.place.line, each.step, each.message) for each in linted.mistakes if each.place] == [
        (4, "a", "steps[0].timeout_seconds: expected a whole number from 1 to 2147483647"),
        (6, "b", 'step "b" builds in unknown step "z"'),
        (7, "c", "steps[2].cmd: expected a non-empty string"),
    ]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('{\n"version": "0",\n}', "ci.json:3: invalid_json: "),
        ('{"version": "1"}', 'ci.json: bad_version: expected version "0", got "1"'),
        ('{"version": "0"}', 'ci.json: invalid_ir: $: expected "graph" or "steps"'),
    ],
)
def test_json_that_is_no_pipeline_has_one_mistake(text: str, mistake: str):
    (found,) = check_ir("ci", text, "ci.json", IrSettings()).mistakes
    assert str(found).startswith(mistake)


TRACEBACKS = """printed by a pipeline file
Traceback (most recent call last):
  File "/workspace/.hm/a.py", line 3, in <module>
    import lost
ModuleNotFoundError: No module named 'lost'
  File "/workspace/.hm/b.py", line 7
    def f(:
          ^
SyntaxError: invalid syntax
Traceback (most recent call last):
  File "/workspace/.hm/c.py", line 1, in <module>
KeyError: 'first'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/workspace/.hm/c.py", line 9, in ci
    hm.sh("x", cwd="")
  File "/dsl/harmont/_step.py", line 90, in sh
    raise ValueError(msg)
ValueError: hm: cwd must be a non-empty path
  → omit cwd=
"""


def test_a_traceback_is_a_mistake_in_the_projects_last_line():
    report = refused(RenderFailed("render failed (exit 1): Traceback", TRACEBACKS.encode()))
    assert [str(each) for each in report.mistakes] == [
        ".hm/a.py:3: render_failed: ModuleNotFoundError: No module named 'lost'",
        ".hm/b.py:7: render_failed: SyntaxError: invalid syntax",
        ".hm/c.py:9: render_failed: ValueError: hm: cwd must be a non-empty path\n  → omit cwd=",
    ]
    assert str(refused(RenderFailed("render timed out after 120 s")).mistakes[0]) == (
        "render_failed: render timed out after 120 s"
    )
