"""The commands as data, read from their declarations."""

from __future__ import annotations

import textwrap
from enum import StrEnum
from typing import TYPE_CHECKING

import click

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KNOWN = {
    "ORG": "org/",
    "ORG/PIPELINE": "pipeline/",
    "ORG/PIPELINE/NUMBER": "build/",
    "PIPELINE": "pipeline/@/",
    "STEP": "step/@/",
}
"""The lines of known names, by what the help calls an argument, and by the names of options."""

_UNWRAPPED = 10_000
"""The width at which click breaks no line by itself."""


class Values(StrEnum):
    """The kinds of values, as far as a shell can complete them."""

    NONE = "none"
    """A flag."""

    WORDS = "words"
    FILES = "files"
    FOLDERS = "folders"
    KNOWN = "known"
    """Names that commands have met (`ci_daemon.local.known_names`)."""

    TEXT = "text"


@immutable
class Accepted:
    """The values of an option or an argument."""

    values: Values
    words: tuple[str, ...] = ()
    """All values, if they are a few.

    Of known names, it is the beginning of their lines, with @ for the first argument.
    """


@immutable
class Option:
    """An option: its names, its form for people, its description."""

    names: tuple[str, ...]
    form: str
    help: str
    accepted: Accepted


@immutable
class CommandPage:
    """A command: its words without the program's name, which are none for the program itself."""

    words: str
    line: str
    """The description on one line."""

    usage: str
    paragraphs: tuple[str, ...]
    """The help; a paragraph with line breaks keeps them."""

    options: tuple[Option, ...]
    arguments: tuple[Accepted, ...]
    commands: tuple[str, ...]
    """The next words of a group's commands."""


def pages(root: click.Command, lines: Mapping[str, str]) -> list[CommandPage]:
    """Return the program, its groups and its commands, each group before its commands.

    ``lines`` are descriptions of commands by their words; the others get the first sentence of their help.
    """
    return list(_pages(root, click.Context(root, info_name="ci-daemon"), lines))


def _pages(command: click.Command, context: click.Context, lines: Mapping[str, str]) -> Iterator[CommandPage]:
    commands = command.list_commands(context) if isinstance(command, click.Group) else []
    words = context.command_path.partition(" ")[2]
    yield CommandPage(
        words=words,
        line=lines.get(words) or command.get_short_help_str(limit=200),
        usage=" ".join(command.collect_usage_pieces(context)),
        paragraphs=(*_paragraphs(command.help or ""), *_epilog(command, context)),
        options=tuple(_options(command, context)),
        arguments=tuple(_accepted(each) for each in command.params if isinstance(each, click.Argument)),
        commands=tuple(commands),
    )
    if isinstance(command, click.Group):
        for name in commands:
            if (inner := command.get_command(context, name)) is not None:
                yield from _pages(inner, click.Context(inner, info_name=name, parent=context), lines)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in textwrap.dedent(text).strip().split("\n\n"):
        kept, mark, lines = paragraph.partition("\b\n")
        yield lines if mark and not kept.strip() else " ".join(paragraph.split())


def _epilog(command: click.Command, context: click.Context) -> Iterator[str]:
    formatter = click.HelpFormatter(width=_UNWRAPPED)
    command.format_epilog(context, formatter)
    for paragraph in formatter.getvalue().strip("\n").split("\n\n"):
        if text := textwrap.dedent(paragraph):
            yield text


def _options(command: click.Command, context: click.Context) -> Iterator[Option]:
    for each in command.get_params(context):
        if isinstance(each, click.Option) and (record := each.get_help_record(context)):
            accepted = Accepted(Values.NONE) if each.is_flag or each.count else _accepted(each)
            yield Option((*each.opts, *each.secondary_opts), record[0], record[1], accepted)


def _accepted(parameter: click.Parameter) -> Accepted:
    name = parameter.human_readable_name.upper().strip("[").partition("]")[0]
    if (lines := _KNOWN.get(name)) is not None:
        return Accepted(Values.KNOWN, (lines,))
    match parameter.type:
        case click.Choice(choices=choices):
            return Accepted(Values.WORDS, tuple(str(each) for each in choices))
        case click.Path(file_okay=False):
            return Accepted(Values.FOLDERS)
        case click.Path() | click.File():
            return Accepted(Values.FILES)
        case _:
            return Accepted(Values.TEXT)
