"""Outputs of GitHub's steps and jobs: values for later steps, and outputs of the language. Pure.

A step writes to a file of its own, from which a function of the shell reads a value for the steps after it. When the
job ends, however it does, the values that other jobs take are written to `$CI_OUTPUT`, under names that are theirs
alone: no output takes the place of a variable that a program knows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actors.ir.systems.jobs import label, word
from actors.ir.systems.omissions import UnknownExpression
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from actors.ir.systems.located import Located

_OF_STEP = re.compile(r"steps\.([a-z_][\w-]*)\.outputs\.([a-z_][\w-]*)", re.ASCII | re.IGNORECASE)
_OF_JOB = re.compile(r"needs\.([a-z_][\w-]*)\.outputs\.([a-z_][\w-]*)", re.ASCII | re.IGNORECASE)
_NO_NAME = re.compile(r"\W", re.ASCII)
_MAX_NAME = 100
"""The longest name that the service takes for an output."""

_BEGIN = """\
outputs=$(mktemp -d)
output() ( # what the step $1 wrote as $2: NAME=value, or lines between NAME<<END and END
  name='' value='' text=''
  while IFS= read -r line || [ -n "$line" ]; do
    if [ -n "$name" ] && [ "$line" = "$end" ]; then
      [ "$name" != "$2" ] || value=${text#?}
      name='' text=''
    elif [ -n "$name" ]; then
      text="$text
$line"
    else
      case ${line%%=*} in
        *'<<'*) name=${line%%'<<'*} end=${line#*'<<'} ;;
        "$line") [ -z "$line" ] || { echo "\\$GITHUB_OUTPUT of $1: no NAME=value: $line" >&2; exit 1; } ;;
        "$2") value=${line#*=} ;;
      esac
    fi
  done < "$outputs/$1"
  [ -z "$name" ] || { echo "\\$GITHUB_OUTPUT of $1: the value of $name does not end" >&2; exit 1; }
  printf %s "$value"
)"""
_GIVE = """\
give() {
  case $2 in
    '') ;;
    *'
'*) echo "the output $1 has several lines: hand it over in a file, as an artifact" >&2; exit 1 ;;
    *) printf '%s\\n' "$1=$2" >> "$CI_OUTPUT" ;;
  esac
}"""


@immutable
class Output:
    """An output of a job that others take: where it stands, and its name here."""

    given: Located
    name: str


class JobOutputs:
    """The outputs of the jobs of a workflow that others take."""

    def __init__(self, jobs: Mapping[str, Located]) -> None:
        self._jobs = jobs
        self._given: dict[str, dict[str, Output]] = {}
        """By job, and by the names there in lower case, as GitHub compares them."""
        taken: set[str] = set()
        for job, name in dict.fromkeys(pair for each in jobs.values() for pair in _taken(each)):
            outputs = jobs[job].get("outputs").mapping() if job in jobs else {}
            given = next((value for each, value in outputs.items() if each.lower() == name), None)
            variable = _variable("output", job, name)
            if given is not None and len(variable) <= _MAX_NAME and variable not in taken:
                taken.add(variable)
                self._given.setdefault(job, {})[name] = Output(given, variable)

    def of(self, job: str) -> Outputs:
        """Return the outputs that a job gives, and those that it can name."""
        needs = self._jobs[job].get("needs").texts() or ()
        return Outputs({each: self._given.get(each, {}) for each in needs}, self._given.get(job, {}).values())


def names_outputs(text: str) -> bool:
    """Tell whether a text names an output."""
    return _OF_STEP.search(text) is not None or _OF_JOB.search(text) is not None


def _taken(given: Located) -> Iterator[tuple[str, str]]:
    """Yield the jobs and outputs that a text anywhere in a value names."""
    for job, name in _OF_JOB.findall(given.text or ""):
        yield job, name.lower()
    children = given.mapping().values() or (each for each in given.items() if each is not given)
    for each in children:
        yield from _taken(each)


def _variable(*parts: str) -> str:
    return "_".join(_NO_NAME.sub("_", each).upper() for each in parts)


@immutable
class Reference:
    """An output in a script: the text there, and the variables that are set for it, as words of the shell."""

    text: str
    variables: Mapping[str, str]


class Outputs:
    """The outputs of one cell of a job: those that it gives, and that it can name.

    It can name those of jobs that it needs, and of its steps so far.
    """

    def __init__(self, needed: Mapping[str, Mapping[str, Output]], given: Iterable[Output]) -> None:
        self._needed = needed
        self.given = tuple(given)
        """Those that other jobs take."""
        self._scripts: dict[str, str] = {}
        self._named: dict[str, tuple[str, str]] = {}
        """The outputs of steps that scripts have as variables, by the names of these."""
        self.jobs: dict[str, None] = {}
        """The jobs of which it takes outputs."""
        self.steps: dict[str, None] = {}
        """The steps of which it takes outputs."""

    def ran(self, step: str, script: str) -> None:
        """Note a step, which may have written outputs for what comes after it."""
        self._scripts[step.lower()] = script

    def word(self, expression: str) -> str | None:
        """Return an output as a word of the shell; None if the expression is none. Raises UnknownExpression."""
        if (of_job := self._of_job(expression)) is not None:
            return f'"${{{of_job}-}}"'
        if (of_step := self._of_step(expression)) is not None:
            return f'"$(output {of_step[0]} {word(of_step[1])})"'
        return None

    def reference(self, expression: str) -> Reference | None:
        """Return an output as a variable in a script; None if it is none. Raises UnknownExpression."""
        if (of_job := self._of_job(expression)) is not None:
            return Reference(f"${{{of_job}-}}", {})
        if (of_step := self._of_step(expression)) is not None:
            name = _variable("step", *of_step)
            if self._named.setdefault(name, of_step) != of_step:
                message = f"the output {label(expression)} has the name of another one here"
                raise UnknownExpression(message)
            return Reference(f"${{{name}}}", {name: f'"$(output {of_step[0]} {word(of_step[1])})"'})
        return None

    def _of_job(self, expression: str) -> str | None:
        found = _OF_JOB.fullmatch(expression)
        if found is None:
            return None
        output = self._needed.get(found[1], {}).get(found[2].lower())
        if output is None:
            message = f"no job that it needs gives the output {label(expression)}"
            raise UnknownExpression(message)
        self.jobs[found[1]] = None
        return output.name

    def _of_step(self, expression: str) -> tuple[str, str] | None:
        found = _OF_STEP.fullmatch(expression)
        if found is None:
            return None
        step, name = found[1].lower(), found[2]
        script = self._scripts.get(step)
        if script is None:
            message = f"no command before it, with this id, writes the output {label(expression)}"
            raise UnknownExpression(message)
        if "::set-output" in script or (name not in script and name.lower() in script.lower()):
            message = f'the step {label(step)} has to write "{label(name)}=…" to $GITHUB_OUTPUT, as it is named here'
            raise UnknownExpression(message)
        self.steps[step] = None
        return step, name

    def beginning(self, given: Sequence[tuple[str, str]]) -> list[str]:
        """Return what comes before the steps: functions, and the values for other jobs, by name, when it ends."""
        lines = [_BEGIN, *(f': > "$outputs/{step}"' for step in self.steps)] if self.steps else []
        if given:
            values = "; ".join(f"give {name} {value}" for name, value in given)
            lines += [_GIVE, f"give_all() {{ {values}; }}", "trap give_all EXIT"]
        return lines
