from __future__ import annotations

import pytest

from actors.test_reports.commands import NotCertain, reported_tests, void_line

CERTAIN = {
    "pytest --junitxml=out/unit.xml": "out/unit.xml",
    "pip install -r requirements.txt\npython3 -m pytest -q --junitxml out/unit.xml tests\n": "out/unit.xml",
    "set -euo pipefail; cd api && DEBUG=1 uv run pytest -k 'a or b' --junit-xml=r.xml": "api/r.xml",
    "curl -sf https://example.org/x | tar -x || echo none\npytest \\\n  --junitxml=r.xml": "r.xml",
}
NOT_CERTAIN = (
    *("make test", "pytest", "pytest --junitxml=r.xml; make", "pytest --junitxml=r.xml && npm test"),
    *("pytest --junitxml=r.xml || true", "true || pytest --junitxml=r.xml", "pytest --junitxml=r.xml | tee log"),
    *("pytest --junitxml=a.xml a\npytest --junitxml=b.xml b", "! pytest --junitxml=r.xml", "pytest --junitxml=r.xml &"),
    *("if true; then pytest --junitxml=r.xml; fi", "for each in a b; do\npytest --junitxml=r.xml $each\ndone"),
    *("pytest -x --junitxml=r.xml", "pytest -qx --junitxml=r.xml", "pytest --maxfail=2 --junitxml=r.xml"),
    *(
        "pytest --cov-fail-under=80 --junitxml=r.xml",
        "pytest --stepwise --junitxml=r.xml",
        "trap 'exit 1' EXIT; pytest",
    ),
    *(
        "pytest --junitxml=$OUT",
        "pytest $ARGS --junitxml=r.xml",
        "pytest --junitxml=../r.xml",
        "pytest --junitxml=/r.xml",
    ),
    *("cd $DIR; pytest --junitxml=r.xml", "(pytest --junitxml=r.xml)", "pytest() { false; }\npytest --junitxml=r.xml"),
    *(
        "cat <<X\nX\npytest --junitxml=r.xml",
        "# pytest\nmake",
        "pytest --junitxml='",
        "export PYTEST_ADDOPTS=-x; pytest --junitxml=r.xml",
    ),
    *(
        "set +e; pytest --junitxml=r.xml; exit 1",
        "coverage run -m pytest --junitxml=r.xml",
        "pytest -p no:terminal --junitxml=r.xml",
    ),
    *("", ";", "\n"),
)


@pytest.mark.parametrize("command", CERTAIN)
def test_a_command_that_ends_with_pytest_is_known(command: str):
    assert reported_tests(command).report == CERTAIN[command]


@pytest.mark.parametrize("command", NOT_CERTAIN)
def test_no_other_command_is_certain(command: str):
    with pytest.raises(NotCertain):
        reported_tests(command)


def test_a_variable_of_pytest_makes_it_uncertain():
    """As `PYTEST_ADDOPTS` of `-x -p no:terminal`, of which no line tells."""
    with pytest.raises(NotCertain, match="variable of pytest"):
        reported_tests("pytest --junitxml=r.xml", {"CI": "1", "PYTEST_ADDOPTS": "-x"})


@pytest.mark.parametrize(
    "line",
    [
        "!!!!!!!!!!!! stopping after 1 failures !!!!!!!!!!!!",
        "\x1b[31m!!!!! Interrupted: 1 error during collection !!!!!\x1b[0m",
        "!!!!!!! _pytest.outcomes.Exit: enough !!!!!!!",
        "INTERNALERROR> Traceback",
        "_____ ERROR collecting tests/test_a.py _____",
        "FAIL Required test coverage of 80% not reached. Total coverage: 60.00%",
        "ERROR: Coverage failure: total of 60 is less than fail-under=80",
    ],
)
def test_a_line_of_another_failure_is_found(line: str):
    assert void_line(f"a\n{line}\n1 failed in 0.1s\n")
    assert void_line("E  assert 1 == 2\nInterrupted: by a test's own words\n1 failed, 3 passed in 0.1s\n") is None
