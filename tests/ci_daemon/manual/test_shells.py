"""Completion in the shells themselves, each in one run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ci_daemon.command import root_command
from ci_daemon.command.support.catalog import lines
from ci_daemon.manual import SHELLS, completion_script, pages
from tests.programs import unpacked_libraries, unpacked_program

CASES = {
    "ci-daemon im": {"image"},
    "ci-daemon image b": {"build"},
    "ci-daemon --state-dir image lease ": {"kill", "list"},
    "ci-daemon token create ada@example.org --kind ": {"api-key", "session"},
    "ci-daemon build force-finish --st": {"--state"},
    "ci-daemon --json build can": {"cancel"},
    "ci-daemon completion f": {"fish"},
    "ci-daemon submit fol": {"folder/"},
    "ci-daemon image list image ": set[str](),
    "ci-daemon member list ": {"acme", "other"},
    "ci-daemon pipeline show acme ": {"lib", "web"},
    "ci-daemon build list acme/w": {"acme/web"},
    "ci-daemon --json build logs acme/web/": {"acme/web/7", "acme/web/12"},
    "ci-daemon build logs acme/web/7 -f ": {"lint", "unit.fast"},
    "ci-daemon artifact get acme/web/7 --job l": {"lint"},
    "ci-daemon build logs acme/web/12 ": set[str](),
}
"""The words that complete a line."""

NAMES = """\
org/acme
org/other
pipeline/acme/lib
pipeline/acme/web
build/acme/web/12
build/acme/web/7
step/acme/web/7/lint
step/acme/web/7/unit.fast
step/acme/lib/3/other
"""

BASH = """
source ./script
while IFS= read -r line; do
    read -ra COMP_WORDS <<<"$line"
    [[ $line == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    compopt() { folders=/; }
    folders=
    _ci_daemon ci-daemon "${COMP_WORDS[COMP_CWORD]}"
    echo "= ${COMPREPLY[*]/%/$folders}"
done <lines
"""
ZSH = """
compdef() { }
compadd() { shift; for word; do [[ $word == $words[CURRENT]* ]] && answer+=($word); done }
_describe() { [[ $1 == -o ]] && shift; compadd -- ${${(P)2}%%:*} }
_files() { answer=(${words[CURRENT]}*(/N)); answer=(${^answer}/) }
source ./script
while IFS= read -r line; do
    words=(${=line}) answer=()
    [[ $line == *' ' ]] && words+=('')
    CURRENT=${#words}
    _ci_daemon
    echo = $answer
done <lines
"""
FISH = """
source ./script
while read --local line
    echo '=' (complete --do-complete $line | string replace --regex '\\t.*' '')
end <lines
"""


@pytest.mark.parametrize(("shell", "asking"), [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
def test_a_tab_completes_as_the_help_says(tmp_path: Path, shell: str, asking: str):
    (tmp_path / "script").write_text(completion_script(shell, pages(root_command(), lines())))
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in CASES))
    (tmp_path / "folder").mkdir()
    (tmp_path / ".cache" / "ci-daemon").mkdir(parents=True)
    (tmp_path / ".cache" / "ci-daemon" / "names").write_text(NAMES)
    done = _run([shell, *(["-f"] * (shell == "zsh")), "-c", asking], tmp_path)
    assert done.stderr == ""
    answers = [set(line.split()[1:]) for line in done.stdout.splitlines()]
    assert dict(zip(CASES, answers, strict=True)) == CASES


def test_every_shell_knows_every_command_and_option():
    known = pages(root_command(), lines())
    names = {name for page in known for name in (*page.commands, *(n for option in page.options for n in option.names))}
    for shell in SHELLS:
        script = completion_script(shell, known)
        assert {name for name in names if name not in script} == set()


def _run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "LD_LIBRARY_PATH": unpacked_libraries(),
    }
    program, *rest = words
    argv = [unpacked_program(program), *rest]
    return subprocess.run(argv, cwd=folder, env=environ, check=True, capture_output=True, text=True)
