"""The inputs of a build: what people give a pipeline that they ask for, and whether it fits. Pure.

They are a stranger's words: bounded in number and length, and never part of a command. A command has them as variables.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from actors.ir.built import MAX_INPUT_CHARS, MOST_INPUTS
from actors.ir.decoding import Fault, quoted
from actors.ir.language.names import nearest
from storage import BuildErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from actors.ir.language.model import Input

_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_TRUTHS = ("true", "false")
_MOST_SHOWN = 20


def variable_of(name: str) -> str:
    """Return the variable in which every job has an input."""
    return f"INPUT_{name.replace('-', '_').upper()}"


def misfit(declared: Input, value: str) -> str | None:
    """Return why a value does not fit an input; None if it does."""
    if len(value) > MAX_INPUT_CHARS:
        return f"expected at most {MAX_INPUT_CHARS} characters, got {len(value)}"
    if _CONTROL.search(value):
        return "expected no control characters and no line ends"
    if declared.choice is not None:
        return (
            None if value in declared.choice else f"there is no choice {quoted(value)}{nearest(value, declared.choice)}"
        )
    if declared.boolean:
        return None if value in _TRUTHS else f"expected true or false, got {quoted(value)}"
    if declared.number and not _NUMBER.fullmatch(value):
        return f"expected a number, got {quoted(value)}"
    return None


def default_of(declared: Input) -> str:
    """Return the value of an input that nobody gives; empty if it has none."""
    if declared.default is not None:
        return declared.default
    return "false" if declared.boolean else ""


def fitting(
    declared: Mapping[str, Input], given: Mapping[str, str], *, asked: bool
) -> tuple[dict[str, str], Sequence[Fault]]:
    """Return the values of all inputs, and what is wrong with those that are given.

    One that a build needs has to be given only if somebody ``asked`` for the build.
    """
    if len(given) > MOST_INPUTS:
        return {}, [_fault((), f"expected at most {MOST_INPUTS} inputs, got {len(given)}")]
    values = {name: given.get(name, default_of(each)) for name, each in declared.items()}
    return values, list(_misfits(declared, given, asked=asked))


def _misfits(declared: Mapping[str, Input], given: Mapping[str, str], *, asked: bool) -> Iterator[Fault]:
    for name, value in given.items():
        if name not in declared:
            hint = nearest(name, declared) if declared else ": the pipeline declares none"
            yield _fault((), f"unknown input {quoted(name)}{hint}")
        elif (why := misfit(declared[name], value)) is not None:
            yield _fault((name,), why)
    for name, each in declared.items():
        if asked and each.required and each.default is None and not given.get(name):
            yield _fault((name,), f"the build needs it{_choices(each)}")


def _choices(declared: Input) -> str:
    few = list(islice(declared.choice or (), _MOST_SHOWN))
    return f": give one of {', '.join(map(quoted, few))}" if few else ": give a value"


def _fault(path: tuple[str, ...], message: str) -> Fault:
    return Fault(BuildErrorCode.INPUTS_INVALID, message, ("inputs", *path))
