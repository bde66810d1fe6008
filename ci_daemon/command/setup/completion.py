"""`ci-daemon completion`: the script that a shell completes this command with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.catalog import lines
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.session import pass_session
from ci_daemon.manual import SHELLS, completion_script, pages

if TYPE_CHECKING:
    from ci_daemon.command.support.session import Session


@click.command(cls=CallerCommand, reads=True)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice([*SHELLS]))
@click.pass_context
@pass_session
def completion(session: Session, context: click.Context, *, shell: str) -> None:
    """Print the script with which a shell completes commands, options, and names that you have met.

    `ci-daemon install` and the package install it. Otherwise, for bash: `ci-daemon completion bash
    >~/.local/share/bash-completion/completions/ci-daemon`; for zsh, into a file _ci-daemon in a folder of $fpath; for
    fish, into ~/.config/fish/completions/ci-daemon.fish.

    A Tab starts no program and asks no server. The names of organizations, pipelines, builds and steps are those that
    your commands have shown, in ~/.cache/ci-daemon/names.
    """
    script = completion_script(shell, pages(context.find_root().command, lines()))
    session.answer({"shell": shell, "script": script}, script.rstrip())
