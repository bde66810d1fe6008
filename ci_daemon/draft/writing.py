"""The text of pipelines in the DSL. Pure; every value from outside is written as a literal."""

from __future__ import annotations

import builtins
import json
import keyword
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ci_daemon.draft.model import DraftCache, DraftPipeline, DraftStep, Pushes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_daemon.draft.model import Trigger

_WIDTH = 120
_INDENT = "    "
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_MINUTE, _HOUR = 60, 3600


def written(pipelines: Sequence[DraftPipeline], docstring: str) -> str:
    """Return the text of a pipeline file."""
    names = _Names({"hm", "timedelta", *dir(builtins)})
    bodies = [_pipeline(pipeline, names) for pipeline in pipelines]
    steps = (step for pipeline in pipelines for step in steps_of(pipeline))
    imports = ["import harmont as hm"]
    if any(step.cache is not None and step.cache.daily for step in steps):
        imports = ["from datetime import timedelta", "", *imports]
    head = [f'"""{_plain(docstring)}"""', "", *imports]
    return "\n".join([*head, *(line for body in bodies for line in ("", "", *body))]) + "\n"


class _Names:
    """Names of functions and variables, each given once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def __call__(self, text: str) -> str:
        """Return a name that resembles a text."""
        name = _NOT_IN_NAMES.sub("_", text.lower()).strip("_") or "step"
        name = f"_{name}" if name[0].isdigit() else name
        found, number = name, 1
        while found in self._taken or keyword.iskeyword(found):
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found


def _pipeline(pipeline: DraftPipeline, names: _Names) -> Iterator[str]:
    options = [_literal(pipeline.slug)]
    if pipeline.name is not None:
        options.append(f"name={_literal(pipeline.name)}")
    if pipeline.triggers:
        options.append(f"triggers={_list(map(_trigger, pipeline.triggers))}")
    if pipeline.env:
        options.append(f"env={_value(pipeline.env)}")
    if pipeline.timeout_seconds is not None:
        options.append(f"timeout={_literal(_duration(pipeline.timeout_seconds))}")
    lines = [
        *_call("@hm.pipeline", options, ""),
        f"def {names(pipeline.slug)}() -> tuple[hm.Step, ...]:",
    ]
    variables = _Names({"hm", "timedelta", *dir(builtins)})
    of_step = {id(step): variables(step.label) for step in steps_of(pipeline)}
    for step in steps_of(pipeline):
        lines += _step(step, of_step)
    stages = [", ".join(of_step[id(step)] for step in stage) for stage in pipeline.stages]
    returned = ", hm.wait(), ".join(stages)
    alone = "," if len(pipeline.stages) == 1 and len(pipeline.stages[0]) == 1 else ""
    result = f"{_INDENT}return ({returned}{alone})"
    if len(result) > _WIDTH:
        result = "\n".join(
            [
                f"{_INDENT}return (",
                *(f"{_INDENT * 2}{each}," for each in returned.split(", ")),
                f"{_INDENT})",
            ]
        )
    return iter([*lines, result])


def steps_of(pipeline: DraftPipeline) -> list[DraftStep]:
    """Return all steps, each after its parent."""
    ordered: dict[int, DraftStep] = {}
    for stage in pipeline.stages:
        for step in stage:
            chain = [step]
            while (parent := chain[-1].parent) is not None:
                chain.append(parent)
            ordered |= {id(each): each for each in reversed(chain) if id(each) not in ordered}
    return list(ordered.values())


def _step(step: DraftStep, names: Mapping[int, str]) -> list[str]:
    options = [_literal(command_of(step)), f"label={_literal(step.label)}"]
    if step.image is not None:
        options.append(f"image={_literal(step.image)}")
    if step.env:
        options.append(f"env={_value(step.env)}")
    if step.cache is not None:
        options.append(f"cache={_cache(step.cache)}")
    if step.runner_args:
        options.append(f"runner_args={_value(step.runner_args)}")
    start = "hm.scratch()" if step.parent is None else names[id(step.parent)]
    variable = names[id(step)]
    lines = _call(f"{variable} = {start}.sh", options, _INDENT)
    if step.timeout_seconds is not None:
        lines.append(f"{_INDENT}{variable} = hm.timeout({_literal(_duration(step.timeout_seconds))}, {variable})")
    return lines


def command_of(step: DraftStep) -> str:
    """Return the command of a step, which ends at once for events that it is not for."""
    if not step.only:
        return step.command
    wanted = " || ".join(map(_condition, step.only))
    strict, rest = ("set -e\n", step.command[7:]) if step.command.startswith("set -e\n") else ("", step.command)
    return f"{strict}if ! {{ {wanted}; }}; then echo 'Not for this event'; exit 0; fi\n{rest}"


def _condition(trigger: Trigger) -> str:
    """Return a command of the shell that passes for the events of a trigger.

    `CI_BRANCH` of a tag is its name.
    """
    if not isinstance(trigger, Pushes):
        wanted = _matches("CI_TARGET_BRANCH", trigger.branches or ("*",))
        return f'{{ [ -n "${{CI_PULL_REQUEST:-}}" ]{wanted}; }}'
    if trigger.tags:
        return f'{{ [ -n "${{CI_TAG:-}}" ]{_matches("CI_TAG", trigger.tags)}; }}'
    return f'{{ [ -z "${{CI_TAG:-}}${{CI_PULL_REQUEST:-}}" ]{_matches("CI_BRANCH", trigger.branches)}; }}'


def _matches(variable: str, globs: Sequence[str]) -> str:
    """Return a command that compares a variable with globs; no text if they match all.

    Globs mean the same in the shell.
    """
    if "*" in globs:
        return ""
    patterns = "|".join("".join(each if each in "*?" else shlex.quote(each) for each in _parts(glob)) for glob in globs)
    return f' && case "${{{variable}:-}}" in {patterns}) ;; *) false ;; esac'


def _parts(glob: str) -> list[str]:
    return [part for part in re.split(r"([*?])", glob) if part]


def _call(function: str, arguments: Sequence[str], indent: str) -> list[str]:
    """Return a call on one line, else with one argument a line."""
    line = f"{indent}{function}({', '.join(arguments)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return [line]
    return [
        f"{indent}{function}(",
        *(f"{indent}{_INDENT}{each}," for each in arguments),
        f"{indent})",
    ]


def _cache(cache: DraftCache) -> str:
    if cache.daily:
        return "hm.ttl(timedelta(days=1))"
    if not cache.files:
        return "hm.forever()"
    return f"hm.compose(hm.forever(), hm.on_change({', '.join(map(_literal, cache.files))}))"


def _trigger(trigger: Trigger) -> str:
    if isinstance(trigger, Pushes):
        name, globs = ("tag", trigger.tags) if trigger.tags else ("branch", trigger.branches)
        return f"hm.push({name}={_globs(globs)})"
    options = [f"branches={_globs(trigger.branches)}"] if trigger.branches else []
    options += [f"types={_value(list(trigger.types))}"] if trigger.types else []
    return f"hm.pull_request({', '.join(options)})"


def _globs(globs: Sequence[str]) -> str:
    return _literal(globs[0]) if len(globs) == 1 else _list(map(_literal, globs))


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"


def _duration(seconds: int) -> str:
    """Return a duration in the largest unit that divides it."""
    for unit, name in ((_HOUR, "h"), (_MINUTE, "m")):
        if seconds % unit == 0:
            return f"{seconds // unit}{name}"
    return f"{seconds}s"


def _value(value: object) -> str:
    """Return a literal of a document of JSON."""
    match value:
        case str():
            return _literal(value)
        case list() | tuple():
            return _list(map(_value, value))
        case bool() | int() | None:
            return repr(value)
        case _:
            assert isinstance(value, Mapping)  # noqa: S101 - documents have nothing else
            return f"{{{', '.join(f'{_literal(name)}: {_value(member)}' for name, member in value.items())}}}"


def _literal(text: str) -> str:
    """Return the literal of a string; a text of several lines has as many here."""
    if "\n" in text.strip("\n"):
        lines = [_on_one_line(f"{line}\n") for line in text.split("\n")[:-1]]
        last = text.rsplit("\n", maxsplit=1)[-1]
        parts = [*lines, *([_on_one_line(last)] if last else [])]
        inner = "".join(f"\n{_INDENT * 3}{part}" for part in parts)
        return f"({inner}\n{_INDENT * 2})"
    return _on_one_line(text)


def _on_one_line(text: str) -> str:
    """Return a literal on one line, which means the same in Python as in JSON."""
    if text.isprintable() and '"' in text and "'" not in text and "\\" not in text:
        return f"'{text}'"
    if all(each.isprintable() or each in "\n\t" for each in text):
        return json.dumps(text, ensure_ascii=False)
    return repr(text)


def _plain(text: str) -> str:
    """Return a text for a docstring: one line without what would end it."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())
