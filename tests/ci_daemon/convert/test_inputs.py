"""Files in the manner of the systems' documentation: each job is right, told, or left out."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from actors.ir.systems import NotReadable, Omissions, convert_github, convert_gitlab
from actors.ir.systems.located import read
from ci_daemon.convert.conversion import written
from ci_daemon.convert.kinds import Kind, kind_of
from storage import NewJob
from tests.rendering import planned_yaml

STRICT = ("bash", "-eo", "pipefail", "-c")
INPUTS = Path(__file__).parents[2] / "data" / "convert" / "inputs"
ON = "on: push\njobs:\n"


def of(text: str) -> tuple[list[NewJob], list[str]]:
    """Return the jobs of a text, which the language's own reader accepts, and the keys that are told."""
    document, omissions = read(text), Omissions("f")
    if kind_of(document) is Kind.WORKFLOW:
        pipelines = convert_github(document, "ci", omissions)
    else:
        pipelines = convert_gitlab(document, omissions)
    plans = planned_yaml({f"{each.slug}.yml": written(each, "") for each in pipelines}).values()
    return [job for plan in plans for job in plan.jobs], [each.key for each in omissions.all]


def job_of(text: str) -> NewJob:
    """Return the only job of a text."""
    (job,), _ = of(text)
    return job


def github_job(members: str, *, name: str = "t") -> str:
    return f"  {name}: {{runs-on: ubuntu-latest, container: a, {members}}}\n"


def inputs(system: str) -> list[object]:
    entries = yaml.safe_load((INPUTS / f"{system}.yml").read_text())
    return [pytest.param(each["file"], each["steps"], each["told"], id=each["name"]) for each in entries]


@pytest.mark.parametrize(("text", "labels", "told"), inputs("github"))
def test_a_workflow(text: str, labels: list[str], told: list[str]):
    jobs, keys = of(text)
    assert [job.name for job in jobs] == labels
    assert [key.removeprefix("jobs.") for key in keys] == told


@pytest.mark.parametrize(("text", "labels", "told"), inputs("gitlab"))
def test_a_file_of_gitlab(text: str, labels: list[str], told: list[str]):
    jobs, keys = of(text)
    assert [job.name for job in jobs] == labels
    assert keys == told


def test_a_branch_is_a_variable_and_no_command(tmp_path: Path):
    members = "env: {B: '${{ github.ref_name }}'}, steps: [{run: echo \"$B\", env: {C: 'x ${{ github.ref }}'}}]"
    job = job_of(ON + github_job(members))
    branch = "$(touch stolen)\"; touch stolen; '`touch stolen`"
    env = {"PATH": "/usr/bin:/bin", "CI_BRANCH": branch}
    done = subprocess.run(
        [*STRICT, job.command],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (0, f"{branch}\n", [])


@pytest.mark.parametrize(
    ("event", "on_github", "on_gitlab"),
    [
        ("push", "push", "push"),
        ("tag", "push", "push"),
        ("manual", "workflow_dispatch", "web"),
        ("pull_request", "pull_request", "merge_request_event"),
        ("schedule", "schedule", "schedule"),
    ],
)
def test_an_event_has_the_word_of_the_other_system(event: str, on_github: str, on_gitlab: str):
    texts = {
        ON
        + github_job("env: {E: '${{ github.event_name }}'}, steps: [{run: 'echo $E $GITHUB_EVENT_NAME'}]"): on_github,
        "t: {image: a, variables: {E: $CI_PIPELINE_SOURCE}, script: 'echo $E $CI_PIPELINE_SOURCE'}": on_gitlab,
    }
    env = {"PATH": "/usr/bin:/bin", "CI_EVENT": event}
    for text, name in texts.items():
        argv = [*STRICT, job_of(text).command]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, cwd="/")
        assert (done.returncode, done.stdout) == (0, f"{name} {name}\n")


def test_a_folder_with_a_space_is_entered_or_fails(tmp_path: Path):
    job = job_of(ON + github_job("steps: [{run: pwd, working-directory: 'a b; touch x'}, {run: echo on}]"))
    assert subprocess.run([*STRICT, job.command], cwd=tmp_path, capture_output=True, check=False).returncode != 0
    (tmp_path / "a b; touch x").mkdir()
    done = subprocess.run([*STRICT, job.command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/a b; touch x\non\n")


@pytest.mark.parametrize("shell", [STRICT, ["sh", "-e", "-c"]])
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("t: {image: a, script: ['false', echo on]}", 1),
        ("t: {image: a, script: [exit 4, echo on], after_script: ['false', echo after]}", 4),
        (ON + github_job('steps: [{run: "false\\necho on"}]'), 1),
        (ON + github_job('steps: [{run: "false | cat\\necho on", shell: bash}]'), 1),
    ],
)
def test_a_command_of_several_lines_fails_with_one(text: str, code: int, shell: list[str]):
    done = subprocess.run([*shell, job_of(text).command], capture_output=True, check=False, cwd="/")
    assert done.returncode == code


@pytest.mark.parametrize(
    "text",
    [
        "variables: {CI: 'false'}\nt: {image: a, script: 'echo $CI'}",
        ON + github_job("env: {CI: false}, steps: [{run: 'echo $CI'}]"),
        ON + github_job("steps: [{run: 'echo $CI', env: {CI: false}}]"),
        "env: {CI: false}\n" + ON + github_job("steps: [{run: 'echo $CI'}]"),
    ],
)
def test_a_files_own_ci_wins_over_the_services(text: str):
    command, env = job_of(text).command, {"CI": "true", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([*STRICT, command], env=env, capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stdout) == (0, "false\n")


def test_the_token_and_words_of_forgejo_are_known():
    members = "env: {T: '${{ secrets.FORGEJO_TOKEN }}', R: '${{ forge.ref_name }}'}, steps: [{run: 'echo $R'}]"
    jobs, told = of(ON + github_job(members))
    assert told == ["jobs.t.env.T"]
    assert "export R=" in jobs[0].command
    assert len(jobs) == 1


@pytest.mark.parametrize("value", ["{}", "[{}]", "[]", "[[a]]", "{a: b}", "x", "''", "1", "010", "null", "[null]"])
@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_no_value_of_any_kind_breaks_the_command(system: str, value: str):
    """Each key that is known takes any value: the job is converted or left out, or the file is refused."""
    if system == "gitlab":
        keys = "stage image script before_script after_script variables needs dependencies artifacts timeout retry"
        keys += " allow_failure parallel rules only except when tags cache extends inherit"
        texts = [
            f"t: {{image: a, script: x, {key}: {value}}}" for key in keys.split() if key not in {"image", "script"}
        ]
        texts += [
            f"t: {{script: x}}\n{key}: {value}" for key in ("stages", "default", "variables", "workflow", "image")
        ]
    else:
        keys = "name container needs env strategy timeout-minutes continue-on-error defaults if"
        texts = [ON + f"  t: {{runs-on: docker, steps: [{{run: x}}], {key}: {value}}}" for key in keys.split()]
        keys = "name env shell working-directory continue-on-error if uses with"
        texts += [ON + github_job(f"steps: [{{run: x, {key}: {value}}}]") for key in keys.split()]
        texts += [f"{key}: {value}\n" + ON + github_job("steps: [{run: x}]") for key in ("name", "env", "defaults")]
        texts += [f"on: {{{key}: {value}}}\njobs:\n" + github_job("steps: [{run: x}]") for key in ("push", "schedule")]
        texts += [ON + f"  t: {value}", f"on: {value}\njobs:\n" + github_job("steps: [{run: x}]")]
    for text in texts:
        with suppress(NotReadable):
            jobs, told = of(text)
            assert jobs or told
