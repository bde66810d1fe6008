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


def test_maven_takes_methods_by_a_variable():
    tests = [TestName("org.acme.CartTest", "adds(int)[1]"), TestName("org.acme.CartTest", "draws")]
    chosen = selection("cd app && ./mvnw -B verify", {"MAVEN_ARGS": "-q"}, tests, None)
    assert chosen.env["MAVEN_ARGS"].startswith("-q -Dtest=CartTest#adds,CartTest#draws -Dsurefire.failIfNoSpecified")
    for command, suite, name in (
        ("mvn test -Dtest=A", "A", "a"),
        ("mvn test && mvn verify", "A", "a"),
        ("mvn test", "A$B", "a"),
        ("mvn test", "A", "adds two numbers"),
    ):
        assert not selection(command, {}, [TestName(suite, name)], None).alone


JEST = TestName("cart", "cart adds (1+1) 'x'")
RUST = TestName("shop", "cart::tests::adds")
JAVA = TestName("org.acme.CartTest", "adds()")


@pytest.mark.parametrize(
    ("command", "test", "last"),
    [
        ("npm ci\nnpx jest --ci\n", JEST, ["--ci", "-t", "cart\\ adds\\ \\(1\\+1\\)\\ 'x'$"]),
        ("CI=1 jest", JEST, ["-t", "cart\\ adds\\ \\(1\\+1\\)\\ 'x'$"]),
        ("cargo +nightly nextest run --profile ci;", RUST, ["ci", "-E", "test(=cart::tests::adds)"]),
        ("set -e; ./gradlew --no-daemon :app:test", JAVA, [":app:test", "--tests", "org.acme.CartTest.adds"]),
    ],
)
def test_other_runners_take_tests_by_options_at_the_end(command: str, test: TestName, last: list[str]):
    chosen = selection(command, {}, [test], None)
    assert chosen.alone
    assert chosen.command is not None
    assert shlex.split(chosen.command)[-len(last) :] == last


@pytest.mark.parametrize(
    "command",
    [
        *("npm test", "npx jest | tee log", "npx jest -t a", "npx jest || true", "npx jest # all", "(npx jest)"),
        *("npx jest --", "npx jest >log", "if true; then npx jest; fi", "sh -c jest", "cargo test"),
        *("cargo nextest run -E 'all()'", "cargo nextest run && echo done"),
        *("./gradlew test jar", "./gradlew test --tests A"),
    ],
)
def test_options_are_added_where_that_is_certain_alone(command: str):
    for test in (JEST, RUST, JAVA):
        assert selection(command, {}, [test], None).command is None


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("command", ["npx jest", "cargo nextest run", "./gradlew test", "mvn test"])
def test_a_hostile_name_adds_one_word_at_most(command: str, name: str):
    for test in (TestName("a", name), TestName(name, "adds")):
        chosen = selection(command, {}, [test], None)
        if chosen.command is not None:
            assert shlex.split(chosen.command)[: len(command.split())] == command.split()
            assert len(shlex.split(chosen.command)) == len(command.split()) + 2
        assert "touch" not in chosen.env.get("MAVEN_ARGS", "")


@pytest.mark.parametrize("command", ["make test", "pytest a && pytest b", "pytest-3", "cargo test", "mypytest"])
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
