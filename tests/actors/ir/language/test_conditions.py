"""Conditions of jobs, and what a skipped job means for others."""

from __future__ import annotations

import pytest

from actors.ir import Built
from tests.actors.ir.language.files import mistakes, plan

PUSH = Built("push", "main", "c" * 40, default_branch="main", repository="https://git.example.org/acme/web")
TAG = Built("tag", "v1.2", "c" * 40, tag="v1.2")
REQUEST = Built("pull_request", "eve:main", "c" * 40, pull_request="7", target_branch="main", fork=True)
DOCS = Built("push", "wip", "c" * 40, changed=frozenset({"docs/a.md", "README.md"}))


def skipped(condition: str, built: Built | None) -> str | None:
    """Return why a job is skipped in a build."""
    (found,) = plan(f"jobs: {{a: {{run: x, when: {condition}}}}}", built=built).jobs
    return found.skipped


@pytest.mark.parametrize(
    ("condition", "built", "reason"),
    [
        ("{branch: main}", PUSH, None),
        ("{branch: [release/*, ma?n]}", PUSH, None),
        ("{branch: main}", DOCS, 'the branch is "wip", and it runs for "main"'),
        ("{branch: '*'}", TAG, 'the branch is none, and it runs for "*"'),
        ("{branch: main}", REQUEST, 'the branch is "eve:main", and it runs for "main"'),
        ("{tag: v*}", TAG, None),
        ("{tag: v2*}", TAG, 'the tag is "v1.2", and it runs for "v2*"'),
        ("{tag: '*'}", PUSH, 'the tag is none, and it runs for "*"'),
        ("{event: [push, manual]}", PUSH, None),
        ("{event: [push, manual]}", TAG, 'the event is "tag", and it runs for "push" or "manual"'),
        ("{target_branch: main}", REQUEST, None),
        ("{target_branch: next}", REQUEST, 'the target branch is "main", and it runs for "next"'),
        ("{target_branch: '*'}", PUSH, 'the target branch is none, and it runs for "*"'),
        ("{repository: '*/acme/*'}", PUSH, None),
        ("{repository: '*/eve/*'}", PUSH, f'the repository is "{PUSH.repository}", and it runs for "*/eve/*"'),
        ("{fork: true}", REQUEST, None),
        ("{fork: false}", REQUEST, "it does not run for forks"),
        ("{fork: true}", PUSH, "it runs for forks alone"),
        ("{paths: docs}", DOCS, None),
        ("{paths: src}", DOCS, 'no file has changed that matches "src"'),
        ("{paths: ['!docs', '!*.md']}", DOCS, 'no file has changed that matches "!docs" or "!*.md"'),
        ("{paths: src}", PUSH, None),  # nobody knows
        ("{not: {paths: src}}", PUSH, None),
        ("{not: {branch: main, paths: src}}", PUSH, None),
        ("{not: {not: {paths: src}}}", PUSH, None),
        ("{not: {paths: docs}}", DOCS, 'all of its "not" holds'),
        ("{not: {branch: main}}", DOCS, None),
        ("{not: {branch: main, event: schedule}}", PUSH, None),
        ("{not: {branch: main, event: push}}", PUSH, 'all of its "not" holds'),
        ("{branch: other, event: schedule}", PUSH, 'the branch is "main", and it runs for "other"'),
        ("{branch: other}", None, None),  # as `lint` plans
    ],
)
def test_a_job_runs_if_its_condition_holds(condition: str, built: Built | None, reason: str | None):
    assert skipped(condition, built) == reason


def test_a_condition_chooses_cells():
    text = "jobs: {a: {run: x, matrix: {v: [1, 2]}, when: {matrix: {v: 2}}}, b: {run: x, needs: a}}"
    found = plan(text)
    assert [each.skipped for each in found.jobs] == ['v is "1", and it runs for "2"', None, None]
    assert [each.continue_on_failure for each in found.jobs[2].depends_on] == [True, False]


def test_what_starts_from_a_skipped_disk_is_skipped_too():
    text = """
    jobs:
      base: {run: x, when: {tag: v*}}
      on_it: {run: x, from: base}
      above: {run: x, from: on_it}
      after: {run: x, needs: [base, other, above]}
      other: {run: x}
    """
    found = {each.step_key: each for each in plan(text, built=PUSH).jobs}
    assert found["on_it"].skipped == 'it starts from the disk of "base", which is skipped'
    assert found["above"].skipped == 'it starts from the disk of "on_it", which is skipped'
    assert (found["after"].skipped, found["other"].skipped) == (None, None)
    assert sorted(each.continue_on_failure for each in found["after"].depends_on) == [False, True, True]


def test_a_skipped_job_lets_nobody_pass_what_it_needs():
    """A report after a skipped deployment still waits for the tests, and does not run if they fail."""
    text = """
    jobs:
      test: {run: x}
      package: {run: x, needs: test, when: {tag: v*}}
      deploy: {run: x, needs: package, when: {tag: v*}}
      report: {run: x, needs: deploy}
      clean: {run: x, needs: deploy, when: {status: always}}
    """
    jobs = plan(text, built=PUSH).jobs
    keys = [each.step_key for each in jobs]
    found = {
        each.step_key: {keys[before.position]: before.continue_on_failure for before in each.depends_on}
        for each in jobs
    }
    assert found["report"] == {"test": False, "deploy": True}
    assert found["clean"] == {"test": True, "deploy": True}


def test_always_is_after_any_end_of_what_is_needed():
    text = "jobs: {a: {run: x}, b: {run: x}, c: {run: x, from: a, needs: b, when: {status: always}}}"
    assert [each.continue_on_failure for each in plan(text).jobs[2].depends_on] == [True, True]


def test_what_takes_the_files_of_a_skipped_job_is_skipped_too():
    text = """
    jobs:
      package: {run: x, artifacts: d, when: {tag: v*}}
      use: {run: x, files: {package: d, some: d}}
      some: {run: x, artifacts: d, matrix: {v: [1, 2]}, when: {matrix: {v: 1}}}
      of_some: {run: x, files: {some: d}}
    """
    found = {each.step_key: each for each in plan(text, built=PUSH).jobs}
    assert found["use"].skipped == 'it takes the files of "package", which is skipped'
    assert found["of_some"].skipped is None
    assert [each.continue_on_failure for each in found["of_some"].depends_on] == [False, True]


def test_a_job_may_run_only_after_a_failure():
    text = "jobs: {a: {run: x}, b: {run: x, needs: a, when: {status: failed}}}"
    a, b = plan(text).jobs
    assert (a.only_after_failure, b.only_after_failure) == (False, True)
    assert [each.continue_on_failure for each in b.depends_on] == [False]


def test_nothing_can_fail_where_nothing_runs():
    text = """
    jobs:
      deploy: {run: x, when: {tag: v*}}
      alarm: {run: x, needs: deploy, when: {status: failed}}
      after: {run: x, needs: alarm}
    """
    _, alarm, after = plan(text, built=PUSH).jobs
    assert (alarm.skipped, alarm.only_after_failure) == (
        "it runs after a failure, and nothing that it needs runs",
        False,
    )
    assert [each.continue_on_failure for each in after.depends_on] == [True]


def test_a_failure_beyond_a_skipped_job_counts():
    """But not for what needs a job that would have run after it, and is skipped."""
    text = """
    jobs:
      test: {run: x}
      deploy: {run: x, needs: test, when: {tag: v*}}
      alarm: {run: x, needs: deploy, when: {status: failed}}
      on_tags: {run: x, needs: test, when: {status: failed, tag: v*}}
      after: {run: x, needs: on_tags}
    """
    jobs = {each.step_key: each for each in plan(text, built=PUSH).jobs}
    assert [each.continue_on_failure for each in jobs["alarm"].depends_on] == [False, True]
    assert [each.continue_on_failure for each in jobs["after"].depends_on] == [True, True]


@pytest.mark.parametrize(
    ("condition", "mistake"),
    [
        ("{brnch: main}", 'brnch: unknown key "brnch": did you mean "branch"?'),
        ("{event: pushed}", 'event: there is no event "pushed": did you mean "push"?'),
        ("{status: failed}", 'status: "failed" is about what the job needs: name that in "needs"'),
        ("{status: ok}", 'status: expected "passed", "failed" or "always", got "ok"'),
        ("{fork: maybe}", 'fork: expected true or false, got "maybe"'),
        ("{not: {not: {evnt: push}}}", 'not.not.evnt: unknown key "evnt": did you mean "event"?'),
        ("{matrix: {v: 1}}", 'matrix.v: unknown axis "v"'),
        ("{inputs: {a: 1}}", 'inputs.a: unknown input "a": `on.manual.inputs` declares none'),
        ("main", ': expected a mapping, got "main"'),
    ],
)
def test_a_mistake_of_a_condition_is_told(condition: str, mistake: str):
    (found,) = mistakes(f"jobs: {{a: {{run: x, when: {condition}}}}}")
    assert found.partition(" ")[2] == f"jobs.a.when{mistake if mistake.startswith(':') else f'.{mistake}'}"


def test_conditions_that_take_long_to_check_hold():
    """Their globs count together, for each cell of a matrix."""
    text = "jobs: {a: {run: x, matrix: {n: [%s]}, when: {paths: [%s]}}}"
    built = Built("push", "main", "c" * 40, changed=frozenset(f"src/{number}" for number in range(2000)))
    (one,) = plan(text % ("1", "docs"), built=built).jobs
    assert one.skipped is not None
    cells = ", ".join(map(str, range(900)))
    globs = ", ".join(f"docs/{number}" for number in range(10))
    assert {job.skipped for job in plan(text % (cells, globs), built=built).jobs} == {None}
