"""Single features of both systems: converted exactly, or left out with a reason."""

from __future__ import annotations

import subprocess
from itertools import pairwise

import pytest

from actors.ir import Built
from actors.ir.systems import NotReadable, Omissions, convert_github, convert_gitlab
from actors.ir.systems.located import read
from actors.ir.systems.model import Cell, ConvertedPipeline, Job
from ci_daemon.convert.conversion import written
from tests.rendering import planned_yaml

GITLAB = "image: a\n"
GITHUB = "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    container: a\n    steps:\n"


def gitlab(text: str) -> tuple[tuple[ConvertedPipeline, ...], list[str]]:
    omissions = Omissions("f")
    return convert_gitlab(read(GITLAB + text), omissions), [each.key for each in omissions.all]


def github(text: str) -> tuple[tuple[ConvertedPipeline, ...], list[str]]:
    omissions = Omissions("f")
    return convert_github(read(text), "ci", omissions), [each.key for each in omissions.all]


def command_of(pipeline: ConvertedPipeline) -> str:
    """Return the command of the only job."""
    (plan,) = planned_yaml({"ci.yml": written(pipeline, "")}).values()
    (job,) = plan.jobs
    return job.command


def run(command: str, cwd: str = "/") -> tuple[int, str]:
    argv = ["bash", "-eo", "pipefail", "-c", command]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a: {script: x, except: [main]}", "a.except"),
        ("a: {script: x, only: [/^v/]}", "a.only"),
        ("a: {script: x, rules: [{if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH}]}", "a.rules"),
        ("a: {script: x, rules: [{if: $CI_COMMIT_BRANCH, changes: ['{b,c}']}]}", "a.rules.changes"),
        ("a: {script: x, rules: [{exists: [b]}]}", "a.rules"),
        ("a: {script: x, when: manual}", "a.when"),
        ("a: {script: x, extends: .none}", "a.extends"),
        ("a: {script: x, extends: a}", "a.extends"),
        ("a: {script: !reference [b, script]}", "a"),
        ("a: {script: x, variables: !reference [b]}", "a"),
        ("a: {trigger: b}", "a.trigger"),
        ("a: {script: x, inherit: {default: false}}", "a.inherit"),
        ("a: {script: x, parallel: {matrix: [{B: {c: d}}]}}", "a.parallel"),
        ("a: {script: x, needs: [b]}", "a.needs"),
        ("a: {script: x, needs: [a]}", "a.needs"),
        ("a: {script: x, stage: none}", "a.stage"),
        ("stages: [b]\na: {script: x}", "a.stage"),
        ("a: nothing", "a"),
        ("a: {script: x, services: [docker:dind]}", "a.services"),
        ("a: {script: x, variables: [B]}", "a.variables"),
        ("a: {script: x, variables: {B: 010}}", "a.variables.B"),
        ("a: {script: x, variables: {B: $CI_JOB_TOKEN}}", "a.variables.B"),
        ("a: {script: x, variables: {B: $C, C: $B}}", "a.variables.B"),
        ("a: {script: x, image: $B}", "a.image"),
        ("a: {script: x, surprise: 1}", "a.surprise"),
        ("a: {script: x, environment: b}", "a.environment"),
        ("a: {script: x, id_tokens: {B: {aud: c}}}", "a.id_tokens"),
        ("a: {script: x, release: {tag_name: b}}", "a.release"),
        ("a: {script: x, tags: [windows]}", "a.tags"),
        ("a: {script: 'login $CI_REGISTRY'}", "a.script"),
        ("a: {script: x, when: delayed, start_in: 1h}", "a.when"),
        ("a: {script: x, parallel: {matrix: [{B: [$C]}]}}", "a.parallel"),
        ("pages: {script: x}", "pages"),
    ],
)
def test_a_job_of_gitlab_that_would_differ_is_left_out(text: str, key: str):
    pipelines, left_out = gitlab(text)
    assert (pipelines, left_out) == ((), [key])


@pytest.mark.parametrize(
    ("member", "key"),
    [
        ("variables: {B: $C}", "a.script"),
        ("cache: {paths: [b]}", "a.cache"),
        ("coverage: /b/", "a.coverage"),
        ("interruptible: true", "a.interruptible"),
        ("resource_group: b", "a.resource_group"),
        ("retry: {max: 1, when: runner_system_failure}", "a.retry"),
        ("timeout: soon", "a.timeout"),
        ("artifacts: {paths: [/etc]}", "a.artifacts.paths"),
        ("artifacts: {reports: {dotenv: x}}", "a.artifacts.reports.dotenv"),
        ("image: {name: b, entrypoint: [sh]}", "a.image.entrypoint"),
        ("tags: [docker]", "a.tags"),
        ("variables: {GIT_STRATEGY: none}", "a.variables.GIT_STRATEGY"),
    ],
)
def test_a_member_of_gitlabs_job_is_left_out_alone(member: str, key: str):
    pipelines, left_out = gitlab(f"a:\n  script: x\n  {member}\n")
    assert (len(pipelines), left_out) == (1, [key])


CIRCLE = {
    "gitlab": "a: {script: x, needs: [b]}\nb: {script: x, needs: [a]}\nc: {script: x, needs: [b]}\nd: {script: x}\n"
    "e: {script: x, needs: [d]}\n",
    "github": "on: push\njobs:\n" + "".join(
        f"  {name}: {{runs-on: ubuntu-latest, container: a, needs: {needs}, steps: [{{run: x}}]}}\n"
        for name, needs in {"a": "b", "b": "a", "c": "b", "d": "[]", "e": "d"}.items()
    ),
}  # fmt: skip


@pytest.mark.parametrize("system", CIRCLE)
def test_jobs_in_a_circle_are_listed_and_others_stay(system: str):
    prefix = "" if system == "gitlab" else "jobs."
    (pipeline,), left_out = (gitlab if system == "gitlab" else github)(CIRCLE[system])
    assert {job.name: job.needs for job in pipeline.jobs} == {"d": (), "e": ("d",)}
    assert sorted(left_out) == [f"{prefix}{name}.needs" for name in "abc"]


def test_a_job_of_gitlab_is_left_out_with_what_it_needs():
    pipelines, left_out = gitlab("a: {script: !reference [b, script]}\nc: {script: x, needs: [a]}\n")
    assert (pipelines, left_out) == ((), ["a", "c.needs"])


def test_an_option_of_a_matrix_is_listed():
    text = (
        GITHUB.replace("    steps", "    strategy: {max-parallel: 1, matrix: {b: [1]}}\n    steps") + "      - run: x\n"
    )
    pipelines, left_out = github(text)
    assert (len(pipelines), left_out) == (1, ["jobs.a.strategy.max-parallel"])


def test_triggers_of_gitlab_are_those_of_all_jobs():
    rules = 'rules: [{if: \'$CI_COMMIT_BRANCH == "main" || $CI_PIPELINE_SOURCE == "merge_request_event"\'}]'
    (pipeline,), told = gitlab(f"a: {{script: x, {rules}}}\nb: {{script: x, {rules}}}\n")
    assert (told, pipeline.on) == ([], {"push": {"branches": ["main"]}, "pull_request": True})
    assert [job.when for job in pipeline.jobs] == [{}, {}]
    (pipeline,), told = gitlab(f"a: {{script: x, {rules}}}\nc: {{script: x}}\n")
    assert (told, pipeline.on) == ([], {"push": True, "tag": ["*"], "pull_request": True})
    builds = (
        Built(event="push", branch="main"),
        Built(event="push", branch="dev"),
        Built(event="tag", tag="v1", branch="v1"),
        Built(event="pull_request", branch="dev", pull_request="1"),
    )
    plans = [planned_yaml({"ci.yml": written(pipeline, "")}, built)["ci"] for built in builds]
    assert [[job.name for job in plan.jobs if job.skipped is None] for plan in plans] == [
        ["a", "c"],
        ["c"],
        ["c"],
        ["a"],
    ]


@pytest.mark.parametrize(
    ("script", "code", "output"),
    [
        ("['false', echo on]", 1, ""),
        ("[false | true, echo on]", 1, ""),
        ("[cd /, pwd]", 0, "/\n"),
        ("exit 3\n  after_script: [echo after, 'false']", 3, "after\n"),
        ("[export B=1]\n  after_script: ['echo $B.']", 0, ".\n"),
    ],
)
def test_scripts_of_gitlab_end_as_they_do_there(script: str, code: int, output: str):
    ((pipeline,), _) = gitlab(f"a:\n  script: {script}\n")
    assert run(command_of(pipeline)) == (code, output)


@pytest.mark.parametrize(
    ("steps", "code", "output"),
    [
        ("[{run: 'cd /'}, {run: 'test $PWD != / && echo on'}]", 0, "on\n"),
        ("[{run: 'false | echo a'}, {run: 'exit 2'}, {run: 'echo no'}]", 2, "a\n"),
        ("[{run: 'false | echo a', shell: bash}, {run: 'echo no'}]", 1, "a\n"),
        ("[{run: 'false', continue-on-error: true}, {run: 'echo $B', env: {B: \"it's\"}}]", 0, "it's\n"),
        ("[{run: pwd, working-directory: /}]", 0, "/\n"),
    ],
)
def test_steps_of_github_end_as_they_do_there(steps: str, code: int, output: str):
    ((pipeline,), left_out) = github(f"{GITHUB}      {steps}\n")
    assert (run(command_of(pipeline), "/tmp"), left_out) == ((code, output), [])


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (GITHUB.replace("ubuntu-latest", "macos-14") + "      - run: x\n", "jobs.a.runs-on"),
        (GITHUB.replace("ubuntu-latest", "ubuntu-24.04-arm") + "      - run: x\n", "jobs.a.runs-on"),
        (GITHUB.replace("    steps", "    needs: a\n    steps") + "      - run: x\n", "jobs.a.needs"),
        (GITHUB.replace("    steps", "    if: cancelled()\n    steps") + "      - run: x\n", "jobs.a.if"),
        (GITHUB.replace("    steps", "    strategy: {matrix: {include: [{b: [1]}]}}\n    steps") + "      - run: x\n",
         "jobs.a.strategy.matrix"),
        (GITHUB.replace("    steps", "    needs: b\n    steps") + "      - run: x\n", "jobs.a.needs"),
    ],
)  # fmt: skip
def test_a_job_of_github_that_would_differ_is_left_out(text: str, key: str):
    assert github(text) == ((), [key])


@pytest.mark.parametrize(
    ("on", "key"),
    [
        ("{push: {paths: ['a{b,c}']}}", "on.push.paths"),
        ("{push: {paths: ['!a', b]}}", "on.push.paths"),
        ("{push: {branches: ['!main']}}", "on.push.branches"),
        ("{push: {tags: ['v*']}}", "on.push.tags"),
        ("{pull_request: {types: [labeled]}}", "on.pull_request.types"),
        ("[issues]", "on.issues"),
        ("{workflow_dispatch: {inputs: {a: {type: environment}}}}", "on.workflow_dispatch.inputs.a"),
    ],
)
def test_events_without_a_trigger_are_left_out(on: str, key: str):
    pipelines, left_out = github(GITHUB.replace("on: push", f"on: {on}") + "      - run: x\n")
    assert (len(pipelines), key in left_out) == (1, True)


DOUBLED = "".join(f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in pairwise("abcdefgh"))
HARMFUL = {
    "open": "a: [",
    "endless": "&a [*a]",
    "deep": "[" * 50 + "]" * 50,
    "large": "x" * 600_000,
    "broken": "a: !!python/object/apply:os.system [ls]\n b",
    "binary": "\0",
    "bomb": f"a: &a [x,x,x,x,x,x,x,x,x]\n{DOUBLED}",
}


@pytest.mark.parametrize("text", HARMFUL.values(), ids=HARMFUL)
def test_yaml_that_could_harm_is_refused(text: str):
    with pytest.raises(NotReadable):
        read(text)


def test_any_text_of_a_file_stays_a_text():
    nasty = '"""\'\\ \n{x}\x1b$(rm)\n")\njobs: [\n# x: y'
    members = {"name": "n: [x] # y", "run": nasty, "env": {"A": nasty, "B": "null", "C": "- a: b #c "}}
    job = Job("a: {b} '\"\\", (Cell({}, members),))
    text = written(ConvertedPipeline("ci", (job,), name="x: 'y' #"), f"{nasty}\njobs: {{}}")
    (plan,) = planned_yaml({"ci.yml": text}).values()
    (planned,) = plan.jobs
    assert (planned.name, planned.command, planned.env) == (members["name"], nasty, members["env"])
    assert planned.step_key == job.name
