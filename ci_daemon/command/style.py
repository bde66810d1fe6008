"""How every command of `ci-daemon` behaves: plain help, `--json` wherever on the line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ci_daemon.command.identity import become_owner
from ci_daemon.command.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CallersCommand", "Command", "Group", "RootGroup"]

_ONE_DOCUMENT = "Answer with one JSON document on stdout."


def _json_option(text: str = _ONE_DOCUMENT) -> click.Option:
    """Return the option `--json`, which the session remembers wherever it stands on the line."""
    return click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        callback=_remember_json,
        help=text,
    )


def _remember_json(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's form
    if wanted:
        context.ensure_object(Session).json = True


class CallersCommand(click.Command):
    """A command with `--json`, which runs as whoever calls it, root too.

    ``json_help`` says what `--json` gives where it is not one document.
    """

    def __init__(self, *args: Any, json_help: str = _ONE_DOCUMENT, **kwargs: Any) -> None:  # noqa: ANN401 - click's own arguments, handed on
        super().__init__(*args, **kwargs)
        self.params.append(_json_option(json_help))


class Command(CallersCommand):
    """A command that root runs as the owner of the state directory, so that what it makes there is the owner's."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - what its callback returns
        """Run it. Files that its line names are open by then, since they may be the caller's alone."""
        become_owner(ctx.ensure_object(Session).state_dir)
        return super().invoke(ctx)


class Group(click.Group):
    """A group of such commands, with `--json` too."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - click's own arguments, handed on
        super().__init__(*args, **kwargs)
        self.params.append(_json_option())


class RootGroup(Group):
    """The command itself; its help lists the commands under headings, in the order a newcomer meets them."""

    group_class = Group

    def __init__(self, *args: Any, headings: Mapping[str, Sequence[str]], **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self._headings = headings

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands heading by heading."""
        for heading, names in self._headings.items():
            rows = [
                (f"{command.name} {name}", inner.get_short_help_str(limit=90))
                if inner is not command
                else (str(name), inner.get_short_help_str(limit=90))
                for command in map(self.commands.__getitem__, names)
                for name, inner in _leaves(ctx, command)
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)


def _leaves(ctx: click.Context, command: click.Command) -> list[tuple[str | None, click.Command]]:
    if not isinstance(command, click.Group):
        return [(command.name, command)]
    return [(name, command.commands[name]) for name in command.list_commands(ctx)]
