"""The base classes of all commands: help, `--json` and `--quiet` anywhere on the line, user, audit."""

from __future__ import annotations

from typing import Any

import click

from ci_daemon.command.support.catalog import HEADINGS, lines
from ci_daemon.command.support.session import Failure, Remembered, Session, become_owner

_ONE_DOCUMENT = "Print one JSON document."


def _json_option(text: str = _ONE_DOCUMENT) -> click.Option:
    """Return the option `--json`, which sets the session's flag anywhere on the line."""
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


def _quiet_option() -> click.Option:
    """Return the option `--quiet`, which sets the session's flag anywhere on the line."""
    return click.Option(
        ["--quiet"],
        is_flag=True,
        expose_value=False,
        callback=_remember_quiet,
        help="Print only errors, and with --json the document.",
    )


def _remember_quiet(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's form
    if wanted:
        context.ensure_object(Session).quiet = True


class CallerCommand(click.Command):
    """A command that runs as its caller, also as root, and leaves an entry in the audit.

    ``json_help`` describes the output of `--json` if it is not one document. A command that only ``reads`` leaves no
    entry.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own arguments, handed on
        json_help: str = _ONE_DOCUMENT,
        reads: bool = False,
        **kwargs: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_json_option(json_help))
        if not any("--quiet" in each.opts for each in self.params):
            self.params.append(_quiet_option())
        self.reads = reads

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; an error names this command also where an option lacks its value."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - what its callback returns
        """Run it, and write its audit entry."""
        session = ctx.ensure_object(Session)
        with session.output():
            result = super().invoke(ctx)
        if not self.reads and not session.audited:
            from ci_daemon.command.support import auditing  # noqa: PLC0415 - only a command that changes something pays for it

            auditing.audit_command(ctx, session)
        return result


class Command(CallerCommand):
    """A command that runs as the owner of the state directory if root calls it.

    The files that it creates there thus belong to the owner.
    """

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - what its callback returns
        """Run it, unless the caller named a server.

        Files on its command line are open already, because perhaps only the caller can read them.
        """
        session = ctx.ensure_object(Session)
        if session.context_name is not None and not session.state_dir_given:
            raise Failure(
                f"`{ctx.command_path}` works only on the box, the host of the service: its owner runs it there, without"
                " --context and its variable"
            )
        become_owner(session.state_dir)
        return super().invoke(ctx)


class SharedCommand(CallerCommand):
    """A command that the box and a server both have.

    On the box it runs as the owner of the state directory, as `Command` does. With a server it runs as its caller, and
    the entry in the audit is the server's.
    """

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - what its callback returns
        """Run it where it belongs."""
        session = ctx.ensure_object(Session)
        if session.server() is None:
            become_owner(session.state_dir)
        else:
            session.audited = True
        result = super().invoke(ctx)
        for each in ctx.params.values():
            if isinstance(each, Remembered):
                session.remember(each.known_lines)
        return result

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say where it works."""
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(
            "Works with a server that you are signed in to (ci-daemon login), and on the box with --state-dir."
        )


class ServerCommand(CallerCommand):
    """A command that only servers have. The entry in the audit is the server's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - click's own arguments, handed on
        super().__init__(*args, reads=True, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - what its callback returns
        """Run it, unless the caller named the box."""
        if ctx.ensure_object(Session).state_dir_given:
            raise Failure(f"`{ctx.command_path}` works only with a server: leave --state-dir and its variable out")
        return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say where it works."""
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text("Works with a server that you are signed in to (ci-daemon login).")


class Group(click.Group):
    """A group of commands, with `--json` and `--quiet`."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - click's own arguments, handed on
        super().__init__(*args, **kwargs)
        self.params += [_json_option(), _quiet_option()]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lines of the group's commands."""
        own = f"{self.name} "
        with formatter.section("Commands"):
            formatter.write_dl(
                [(words.removeprefix(own), text) for words, text in lines().items() if words.startswith(own)]
            )


class RootGroup(Group):
    """The root command; its help lists all commands under headings without importing them."""

    group_class = Group

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands heading by heading."""
        for heading, texts in HEADINGS.items():
            with formatter.section(heading):
                formatter.write_dl(list(texts.items()))
