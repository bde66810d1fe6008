"""Commands of several lines: whether a failure in one of them is hidden, and that real shells agree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_daemon.lint.shell_lines import hides_failures

HIDDEN = [
    "false\necho done",
    "\n    false   # the linter\n    echo tests passed\n",
    "npm ci\nnpm test",
    "cd web\nmake",
    "cd web || exit; npm ci\nnpm test",
    "make; make check\necho done",
    "set -x\nfalse\ntrue",
    "set -o pipefail\nfalse\ntrue",
    "set +e\nfalse\ntrue",
    "set -- -e\nfalse\ntrue",
    "#!/bin/bash -e\nfalse\ntrue",
    "# set -e\nfalse\ntrue",
    "false | cat\ntrue",
    "false && true\ntrue",
    "x=$(false)\ntrue",
    "X=1 false\ntrue",
    "if true; then true; fi\nfalse\necho done",
    "for i in 1 2; do\n  true\ndone\nfalse\ntrue",
    "cat <<EOF > file\nset -e\nEOF\nfalse\ntrue",
    "[ -f no ]\ntrue",
    "[[ a < b && c ]]\nfalse\ntrue",
    "(false)\ntrue",
    "{ false; }\ntrue",
    "echo 'set -e\n'; false\ntrue",
    'echo "a\nb"\nfalse\ntrue',
    "case x in\n  a|b) true;;\n  (c) true;;\n  *) true\nesac\nfalse\ntrue",
    "f() {\n  true\n}\nfalse\nf",
    "x=(\n a\n b\n)\nfalse\ntrue",
    "(( 1 + 1 ))\nfalse\ntrue",
    'echo $((1 + 2)) ${x:-"}"}\nfalse\ntrue',
    "false 2>&1\ntrue",
    "true & \nfalse\nwait",
]

FINE = [
    "make",
    "make; make check",
    "\n  make\n",
    "set -e\nfalse\ntrue",
    "set -eu\nfalse\ntrue",
    "set -euo pipefail\nfalse\ntrue",
    "  set -o errexit\nfalse\ntrue",
    "set -x -e; false\ntrue",
    "set -ex && true\nfalse\ntrue",
    "cd web || exit; set -e\nfalse\ntrue",
    "trap 'exit 1' ERR\nfalse\ntrue",
    "bash -e <<EOF\nfalse\ntrue\nEOF",
    "bash -euo pipefail -c '\nfalse\ntrue\n'",
    "false &&\ntrue",
    "false && \\\ntrue",
    "false \\\n  --flag \\\n  --other",
    "false |\n  cat",
    "python3 - <<'EOF'\nimport os\nprint('it''s')\nEOF\n",
    "cat <<-EOF\n\tone\n\tEOF\n",
    "if false; then\n  make\n  make check\nfi",
    "for each in a b; do\n  make $each\ndone",
    "while read line\ndo\n  echo $line\ndone < file",
    "until true\ndo\n  sleep 1\ndone",
    "case $x in\n  a) make;;\n  *) make check;;\nesac",
    "(\n  make\n  make check\n)",
    "{\n  make\n  make check\n}",
    "echo building\nmake",
    "export A=1\nB=2\nmake",
    "# a comment\n\nmake\n# another",
    "make || exit 1\nmake check",
    "make || true\nmake check",
    "make || {\n  echo failed\n  exit 1\n}\nmake check",
    "make\nexit $?",
    "if ! test -e x; then\n  echo no x\n  exit 1\nfi\nmake",
    "case $CI_BRANCH in main) ;; *) exit 0;; esac\nmake",
    "make\ncode=$?\necho $code\nexit $code",
    "server &\nmake check",
    "f() {\n  make\n  make check\n}\nf",
    "function f {\n  make\n  make check\n}\nf",
    "exec > log 2>&1\nmake",
    "make 'a\nb'",
    'make "a\n$(echo "b\nc")"',
    "make $'it\\'s\n'",
    "x=1 \\\n  make",
    "false\n\n\n",
    "",
    "\n",
    # not understood: nothing is said
    "make 'unfinished\nmake check",
    "make )\nmake check",
    "fi\nmake",
    "if true\nmake\nmake",
]


@pytest.mark.parametrize("command", HIDDEN)
def test_a_line_that_may_fail_unnoticed_is_found(command: str):
    assert hides_failures(command)


@pytest.mark.parametrize("command", FINE)
def test_other_commands_of_several_lines_are_not(command: str):
    assert not hides_failures(command)


@pytest.mark.parametrize("command", [each for each in HIDDEN if "false" in each])
def test_in_bash_such_a_command_passes_and_set_e_fails_it(command: str, tmp_path: Path):

    def exit_code(*options: str) -> int:
        done = subprocess.run(["bash", *options, "-c", command], cwd=tmp_path, capture_output=True, check=False)
        return done.returncode

    assert exit_code() == 0
    if "&&" not in command and "+e" not in command:
        assert exit_code("-eo", "pipefail") != 0


@pytest.mark.parametrize("part", ["(", "((", "x=(", '"$(', "`$(", "<<a\n", "[[ ", "a()", "if x\n", "{ ", "a\n", "'\n"])
def test_a_command_of_any_size_is_read(part: str):
    hides_failures(part * 60_000)


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="ab=$(){}[]<>|&;\"'`\\#!\n \tifdonecase", max_size=60))
def test_any_text_is_read_to_its_end(command: str):
    hides_failures(command)
    assert not hides_failures(f"set -e\n{command}")
