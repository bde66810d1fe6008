"""Names in text: what they are replaced by, and where a stranger's words may not stand."""

from __future__ import annotations

import pytest

from actors.ir import Built
from storage import NewJob
from tests.actors.ir.language.files import mistakes, plan

HOSTILE = "$(reboot);`reboot`\"'&& reboot"
BUILT = Built("pull_request", HOSTILE, "c" * 40, pull_request="7", target_branch="next", default_branch="main")


def job(keys: str) -> NewJob:
    return plan(f"{{env: {{ALL: '${{{{ build.commit }}}}'}}, jobs: {{a: {{{keys}}}}}}}", built=BUILT).jobs[0]


def test_names_of_the_build_are_replaced_in_data():
    found = job("run: x, name: 'Of ${{build.target_branch}}', env: {B: '${{ build.branch }}', T: 't${{ build.tag }}'}")
    assert found.env == {"ALL": "c" * 40, "B": HOSTILE, "T": "t"}
    assert found.name == "Of next"
    assert job("run: x, image: 'app:${{ build.commit }}'").image == f"app:{'c' * 40}"


def test_only_numbers_and_own_values_get_into_a_command():
    found = job("run: 'echo ${{ build.pull_request }} ${{ matrix.v }}', matrix: {v: ['$HOME']}")
    assert found.command == "echo 7 $HOME"


@pytest.mark.parametrize("key", ["run: '{}'", "run: x, shell: [bash, -c, '{}']"])
@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("branch", "$CI_BRANCH"),
        ("commit", "$CI_COMMIT"),
        ("tag", "$CI_TAG"),
        ("event", "$CI_EVENT"),
        ("target_branch", "$CI_TARGET_BRANCH"),
    ],
)
def test_a_strangers_words_are_refused_in_a_command(key: str, name: str, variable: str):
    (found,) = mistakes(f"jobs: {{a: {{{key.replace('{}', f'echo ${{{{ build.{name} }}}}')}}}}}")
    message = f'"build.{name}" is what a stranger may choose, and must not become a command: write "{variable}"'
    assert found.endswith(message)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            "run: '${{ build.repository }}'",
            '"build.repository" must not be part of a command: put it into a variable of env',
        ),
        (
            "run: '${{ build.changed_files }}'",
            '"build.changed_files" must not be part of a command: put it into a variable of env',
        ),
        ("run: x, env: {A: '${{ build.brnch }}'}", 'unknown name "build.brnch": did you mean "build.branch"?'),
        (
            "run: x, cache: {key: '${{ matrix.v }}'}, matrix: {v: [1]}",
            'names in text are not replaced here: unknown name "matrix.v"',
        ),
        (
            "run: x, matrix: {v: ['${{ build.branch }}']}",
            'names in text are not replaced here: unknown name "build.branch"',
        ),
        (
            "run: x, when: {branch: '${{ build.branch }}'}",
            'names in text are not replaced here: unknown name "build.branch"',
        ),
    ],
)
def test_a_name_that_cannot_be_replaced_is_a_mistake(keys: str, message: str):
    (found,) = mistakes(f"jobs: {{a: {{{keys}}}}}")
    assert found.endswith(message)


def test_a_number_of_a_pull_request_is_one():
    """The variable may be anybody's: who asks for a build gives it variables."""
    fields = {"branch": "b", "commit": "c", "source": "api", "fork": False, "default_branch": None, "repository": None}
    assert Built.of(env={"CI_PULL_REQUEST": "7; reboot"}, **fields).pull_request == ""  # type: ignore[arg-type]
    assert Built.of(env={"CI_EVENT": "$(reboot)"}, **fields).event == "manual"  # type: ignore[arg-type]
