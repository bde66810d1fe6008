from __future__ import annotations

import json
import shlex

import pytest

from actors.test_reports import selection
from storage import TestName

ADDS, DRAWS = TestName("tests.test_math.TestSums", "test_adds[1-2]"), TestName("tests.test_luck", "test_draws")
HOSTILE = ("'; touch /pwned; '", "$(touch /pwned)", "`touch /pwned`", "-rf", 'a"b\\', "x\ny", "{suites} {tests}")


def test_pytest_takes_functions_by_a_variable():
    for command in ("pytest", "cd a && python3 -m pytest -q --junitxml=o.xml tests", "uv run pytest\n"):
        chosen = selection(command, {"PYTEST_ADDOPTS": "-v"}, [ADDS, DRAWS], None)
        wanted = '-v -k "(TestSums and test_adds) or (test_luck and test_draws)"'
        assert (chosen.env["PYTEST_ADDOPTS"], chosen.alone, chosen.command) == (wanted, True, None)
        assert json.loads(chosen.env["CI_TESTS"])[0] == [ADDS.suite, ADDS.name]


def test_go_takes_functions_by_a_variable():
    tests = [TestName("example.org/sums", "TestAdds/small"), TestName("example.org/sums", "TestAdds/large")]
    assert selection("gotestsum --junitfile=o.xml", {}, tests, None).env["GOFLAGS"] == "-count=1 -run=^(TestAdds)$"


@pytest.mark.parametrize("command", ["make test", "pytest a && pytest b", "pytest-3", "cargo nextest run", "mypytest"])
def test_all_runs_where_no_runner_is_certain(command: str):
    assert not selection(command, {}, [DRAWS], None).alone


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_no_part_of_an_option(name: str):
    for command in ("pytest", "go test ./..."):
        for test in (TestName("a", name), TestName(name, "test_b")) if command == "pytest" else (TestName("a", name),):
            chosen = selection(command, {}, [test], None)
            assert (set(chosen.env), chosen.alone) == ({"CI_TESTS"}, False)
    assert not selection("pytest", {}, [], None).env


@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_has_names_as_single_words(name: str):
    made = selection("make", {}, [TestName(name, name), TestName("b", "b c")], "run {tests} -s {suites} -k {pattern}")
    assert made.command is not None
    words = shlex.split(made.command)
    assert words[:5] == ["run", name, "b c", "-s", name]
    assert words[5:7] == ["b", "-k"]
    assert len(words) == 8
