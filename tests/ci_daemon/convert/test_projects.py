"""`ci-daemon convert` on small projects whose jobs would run otherwise if one thing were read wrongly."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from actors.ir import Built, Plan
from ci_daemon.command import main
from storage import NewJob
from tests.rendering import planned_yaml

PROJECTS = Path(__file__).parents[2] / "data" / "convert" / "projects"


class Converted:
    """The command's work on a project: its exit code, its plans by slug, and what it tells."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.exit_code = main(["convert", str(path), "--json"])
        captured = capsys.readouterr()
        self.error = captured.err
        self.document: dict[str, Any] = (
            json.loads(captured.out) if captured.out else {"files": [], "texts": {}, "left_out": []}
        )
        self.files = [Path(each) for each in self.document["files"]]
        self.text = "".join(self.document["texts"].values())
        self.plans: dict[str, Plan] = planned_yaml({each.name: each.read_text() for each in self.files})

    @property
    def jobs(self) -> dict[str, NewJob]:
        return {job.name: job for plan in self.plans.values() for job in plan.jobs}

    def told(self, key: str) -> str:
        return " ".join(each["why"] for each in self.document["left_out"] if each["key"] == key)

    def skipped(self, built: Built) -> list[str]:
        """Return the jobs that do not run in a build."""
        plans = planned_yaml(self.document["texts"], built).values()
        return [job.name for plan in plans for job in plan.jobs if job.skipped is not None]

    def waits_for(self, name: str) -> list[str]:
        (plan,) = self.plans.values()
        return [plan.jobs[each.position].name for each in self.jobs[name].depends_on]


Convert: TypeAlias = Callable[..., Converted]


@pytest.fixture
def convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Convert:
    def of(name: str, path: str = ".") -> Converted:
        project = tmp_path / name
        shutil.copytree(PROJECTS / name, project)
        return Converted(project / path, capsys)

    return of


def run(command: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", **(env or {})}
    argv = ["bash", "-eo", "pipefail", "-c", command]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


@pytest.mark.parametrize("path", [".", ".travis.yml"])
def test_another_systems_file_is_refused(convert: Convert, path: str):
    found = convert("travis-taken-for-gitlab", path)
    assert (found.exit_code, found.files) == (1, [])
    assert "a file of Travis CI" in found.error


def test_workflows_of_forgejo_are_found(convert: Convert):
    found = convert("forgejo-workflow")
    assert (found.exit_code, sorted(found.jobs)) == (0, ["a", "b"])
    assert {job.image for job in found.jobs.values()} == {"debian:12"}


def test_a_file_is_converted_into_its_repository(convert: Convert):
    found = convert("forgejo-workflow", ".forgejo/workflows/ci.yml")
    (file,) = found.files
    assert file.parts[-3:] == ("forgejo-workflow", ".hm", "ci.yml")


def test_a_language_is_not_set_up_in_a_container(convert: Convert):
    found = convert("gh-container-and-setup")
    assert (found.exit_code, found.files) == (1, [])
    assert "not applied in a container" in found.told("jobs.test.steps[1].uses")


def test_no_other_value_takes_the_place_of_one(convert: Convert):
    found = convert("gh-env-falls-back")
    assert (found.exit_code, found.files) == (1, [])
    assert "would run under other conditions" in found.told("jobs.a.env.TARGET")


def test_the_token_of_github_is_told_not_required(convert: Convert):
    found = convert("gh-github-token")
    assert found.jobs["rel"].secrets == ()
    assert "secret set" in found.told("jobs.rel.env.GITHUB_TOKEN")


def test_a_label_is_on_one_line(convert: Convert):
    assert list(convert("gh-label-of-two-lines").jobs) == ["Two lines"]


def test_a_matrix_that_is_an_expression_is_left_out(convert: Convert):
    found = convert("gh-matrix-from-json")
    assert list(found.jobs) == ["plan"]
    assert "the whole job is left out" in found.told("jobs.test.strategy.matrix")


def test_jobs_are_skipped_for_an_excluded_branch(convert: Convert):
    found = convert("gh-negative-branch")
    names = ("main", "gh-pages", "dependabot/npm/x")
    skipped = [found.skipped(Built(event="push", branch=name)) for name in names]
    assert skipped == [[], ["a"], ["a"]]
    assert found.skipped(Built(event="manual", branch="gh-pages")) == []
    assert "all of their jobs are skipped" in found.told("on.push.branches")


def test_numbers_are_as_github_prints_them(convert: Convert, tmp_path: Path):
    jobs = convert("gh-number-in-matrix").jobs
    assert list(jobs) == ["test (2.7)", "test (3)", "test (3.1)"]
    assert all(run(job.command, tmp_path).returncode == 0 for job in jobs.values())


def test_sudo_works_where_steps_are_root(convert: Convert, tmp_path: Path):
    job = convert("gh-sudo").jobs["test"]
    assert job.image == "python:3.12"
    place = tmp_path / "bin"
    place.mkdir()
    begins, _, _ = job.command.partition("\nbash -e -c")
    begins = begins.replace("/usr/local/bin", str(place)).replace("command -v sudo", "false")
    done = run(f"{begins}\n{place}/sudo -E -u root A=b printenv A && {place}/sudo --edit x", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "b\n", "sudo: '--edit' is not known here\n")


def test_a_variable_of_an_image_has_its_value(convert: Convert):
    found = convert("gl-image-with-variable")
    assert [job.image for job in found.jobs.values()] == ["ruby:3.2", "ruby:3.3"]


def test_local_files_are_included(convert: Convert):
    found = convert("gl-local-include")
    assert (found.exit_code, found.jobs["unit"].image) == (0, "debian:12")
    assert found.jobs["unit"].command.endswith("make check")


def test_jobs_for_fewer_events_keep_their_gate(convert: Convert):
    found = convert("gl-majority")
    assert found.waits_for("prod_env") == ["unit"]
    deploys = ["stage_env", "prod_env"]
    builds = [
        (Built(event="push", branch="main"), []),
        (Built(event="manual", branch="main"), []),
        (Built(event="push", branch="dev"), deploys),
        (Built(event="tag", branch="v1", tag="v1"), deploys),
        (Built(event="pull_request", branch="main", pull_request="1"), deploys),
    ]
    assert [found.skipped(built) for built, _ in builds] == [skipped for _, skipped in builds]
    assert "not for a tag of this name" in found.told("prod_env.only")
    assert 'on:\n  push: true\n  tag: ["*"]\n' in found.text


def test_variables_of_settings_are_told_and_required(convert: Convert, tmp_path: Path):
    found = convert("gl-project-variables")
    assert found.exit_code == 3
    assert all(f"${name}" in found.told("publish.script") for name in ("PYPI_USER", "PYPI_PASSWORD"))
    assert "name it in `secrets`" in found.told("publish.script")
    assert run(found.jobs["publish"].command, tmp_path).returncode != 0


def test_a_gate_is_kept_with_what_it_refers_to(convert: Convert):
    found = convert("gl-stage-gate")
    assert found.jobs["unit"].command.endswith("make check")
    assert found.waits_for("release") == ["unit"]


def test_submodules_and_depth_are_told(convert: Convert):
    found = convert("gl-submodules")
    assert "repo edit --submodules" in found.told("variables.GIT_SUBMODULE_STRATEGY")
    assert "has no effect" in found.told("variables.GIT_DEPTH")
