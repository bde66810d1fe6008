"""Files of other systems are told by their names and by their forms, and never read as GitLab's."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.ir.systems import NotReadable
from ci_daemon.convert import Project, converted

FORMS = {
    "Travis CI": "language: python\nscript: pytest\ndeploy: {provider: script, script: ./deploy.sh}\n",
    "CircleCI": "version: 2.1\njobs: {build: {docker: [{image: a}], steps: [checkout, {run: make}]}}\n",
    "Azure Pipelines": "trigger: [main]\npool: {vmImage: ubuntu-latest}\nsteps: [{script: make}]\n",
    "Jenkins": "pipeline {\n  agent any\n  stages { stage('x') { steps { sh 'make' } } }\n}\n",
    "Bitbucket Pipelines": "image: a\npipelines: {default: [{step: {script: [make]}}]}\n",
    "Cirrus CI": "lint_task: {container: {image: a}, script: make}\n",
    "AppVeyor": "image: Visual Studio 2022\nbuild_script: [make]\ntest_script: [x]\n",
    "Buildkite": "steps: [{label: a, command: make}, wait, {command: ./deploy}]\n",
    "Semaphore": "version: v1.0\nname: x\nblocks: [{task: {jobs: [{commands: [make]}]}}]\n",
    "Google Cloud Build": "steps: [{name: a, args: [make]}]\n",
    "AWS CodeBuild": "version: 0.2\nphases: {build: {commands: [make]}}\n",
    "Concourse": "resources: [{name: a}]\njobs: [{name: b, plan: [{get: a}]}]\n",
    "an action of GitHub": "name: x\nruns: {using: composite, steps: [{run: make, shell: bash}]}\n",
    "Docker Compose": "services: {web: {image: a}}\n",
    "Kubernetes": "apiVersion: v1\nkind: Pod\nspec: {}\n",
    "neither a job nor a key": "unit: {script: make}\nsurprise: [make]\n",
    "no job": "{}",
}
NAMES = {
    ".travis.yml": "Travis CI",
    ".circleci/config.yml": "CircleCI",
    "azure-pipelines.yml": "Azure Pipelines",
    "Jenkinsfile": "Jenkins",
    "bitbucket-pipelines.yml": "Bitbucket Pipelines",
    ".drone.star": "Drone in another language",
    ".cirrus.yml": "Cirrus CI",
    "appveyor.yml": "AppVeyor",
    ".buildkite/pipeline.yml": "Buildkite",
}
CONVERTED = {
    ".drone.yml": "kind: pipeline\ntype: docker\nname: x\nsteps: [{name: a, image: b, commands: [make]}]\n",
    ".woodpecker.yml": "when: {event: push}\nsteps: {build: {image: a, commands: [make]}}\n",
    ".woodpecker/test.yaml": "steps: [{name: build, image: a, commands: [make]}]\n",
    ".build.yml": "image: alpine/edge\nsources: [https://a/b]\ntasks: [{build: make}]\n",
    ".builds/alpine.yml": "image: debian/stable\ntasks: [{build: make}]\n",
}
OF_GITLAB = "unit: {image: a, script: make}\n"


def refusal(path: Path, file: Path | None = None) -> str:
    with pytest.raises(NotReadable) as caught:
        converted(Project.at(file or path))
    return str(caught.value)


@pytest.mark.parametrize(("system", "text"), FORMS.items(), ids=FORMS)
@pytest.mark.parametrize("name", [".gitlab-ci.yml", ".github/workflows/a.yml", "x.yml"])
def test_another_systems_form_is_refused(name: str, system: str, text: str, tmp_path: Path):
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert system in refusal(tmp_path, file)


@pytest.mark.parametrize(("name", "system"), NAMES.items())
def test_another_systems_name_is_refused(name: str, system: str, tmp_path: Path):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(OF_GITLAB)
    assert system in refusal(tmp_path, file)
    assert system in refusal(tmp_path)


@pytest.mark.parametrize(("name", "text"), CONVERTED.items())
def test_a_file_is_told_by_its_place_or_form(name: str, text: str, tmp_path: Path):
    for place in (name, "any.yml"):
        file = tmp_path / place
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        assert "make" in "".join(converted(Project.at(file)).texts.values())
    assert Project.at(tmp_path / name).root == tmp_path
    assert [each.name for each in Project.at(tmp_path).files] == [Path(name).name]


@pytest.mark.parametrize("name", CONVERTED)
def test_what_a_system_does_not_know_is_lost(name: str, tmp_path: Path):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(OF_GITLAB)
    found = converted(Project.at(tmp_path))
    assert (dict(found.texts), [each.is_loss for each in found.omissions]) == ({}, [True])


def test_a_workflow_may_have_another_systems_name(tmp_path: Path):
    file = tmp_path / ".gitea" / "workflows" / "compose.yml"
    file.parent.mkdir(parents=True)
    file.write_text("on: push\njobs: {a: {runs-on: docker, container: b, steps: [{run: x}]}}\n")
    found = converted(Project.at(file))
    assert (list(found.texts), Project.at(file).root) == (["compose.yml"], tmp_path)


def test_a_files_root_is_that_of_its_repository(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "main.yml").write_text(OF_GITLAB)
    assert Project.at(tmp_path / "ci" / "main.yml").root == tmp_path


def test_files_of_several_systems_are_told_to_run_twice(tmp_path: Path):
    for name in (".github/workflows/ci.yml", ".forgejo/workflows/ci.yml"):
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text("on: push\njobs: {a: {runs-on: docker, container: b, steps: [{run: x}]}}\n")
    found = converted(Project.at(tmp_path))
    assert list(found.texts) == ["ci.yml", "ci-2.yml"]
    assert [(each.key, "runs twice" in each.why) for each in found.omissions] == [(".forgejo", True)]
