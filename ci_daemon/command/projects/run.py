"""`ci-daemon run`: run the pipeline of a tree on this machine, without a service."""

from __future__ import annotations

import gc
import json
import os
import re
import sys
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from actors.vms import VmError
from ci_daemon import debug as debugging
from ci_daemon import local
from ci_daemon import submit as submission
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.pipeline_files import (
    EXIT_CODES,
    check_slug,
    inputs_option,
    ir_option,
    pipeline_ir,
    strict_shell_flag,
)
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.providers import open_images
from ci_daemon.terminal.raw import has_terminal
from storage import JobErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_daemon.config import Config
    from ci_daemon.local import BuildInterrupts, LocalRun, Request, TreeChanges
    from ci_daemon.submit import Screen, Summary
    from storage import Build

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_HOLD_SECONDS = 86_400
_SWITCH_SECONDS = 0.001
"""A fifth of Python's default, so that a thread with a VM's answer goes on while another imports."""

_EXAMPLES = """\b
ci-daemon run                                    the pipeline of this folder
ci-daemon run --step test --env DEBUG=1          one step and what it needs
ci-daemon run --plan                             the steps that would run
ci-daemon run --shell test                       a shell where this step fails
ci-daemon run --watch --secret TOKEN=@token.txt  again after each change
"""


def _variables(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Read ``NAME=VALUE`` as often as it is given."""
    return dict(_pair(each) for each in given)


def _secrets(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Read ``NAME=@FILE``; values on a command line would be visible to every user of the host."""
    return {name: _content(name, value) for name, value in map(_pair, given)}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise click.BadParameter(f'"{text}" is not NAME=VALUE, with a name of letters, digits and underscores')
    return name, value


def _content(name: str, value: str) -> str:
    """Return the text of a secret's file, without a final line end."""
    if not value.startswith("@"):
        raise click.BadParameter(f"give the file with the secret, as in {name}=@FILE")
    try:
        text = Path(value.removeprefix("@")).read_text(encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(f"{error.filename}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{value.removeprefix('@')} is not UTF-8 text: encode it, as in base64") from error
    return text.removesuffix("\n").removesuffix("\r")


@click.command(cls=CallerCommand, reads=True, epilog=_EXAMPLES)
@click.argument("tree", metavar="[DIR]", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--pipeline", metavar="SLUG", help="By default the only one that DIR declares.")
@ir_option
@click.option("--step", "steps", metavar="KEY", multiple=True, help="Run only this step and all that it needs.")
@click.option("--plan", "plans", is_flag=True, help="Print the steps that would run, and run nothing.")
@click.option("--shell", metavar="STEP", help="Open a shell in the VM of this step if it fails.")
@click.option("--watch", is_flag=True, help="Run again when files of DIR change, until Ctrl-C.")
@inputs_option
@click.option("--env", metavar="NAME=VALUE", multiple=True, callback=_variables, help="Set a variable of all steps.")
@click.option("--secret", "secrets", metavar="NAME=@FILE", multiple=True, callback=_secrets, help="Set a secret.")
@strict_shell_flag
@pass_session
def run(
    session: Session,
    *,
    tree: Path,
    pipeline: str | None,
    ir_file: Path | None,
    steps: tuple[str, ...],
    plans: bool,
    shell: str | None,
    watch: bool,
    inputs: dict[str, str],
    env: dict[str, str],
    secrets: dict[str, str],
    strict_shell: bool,
) -> int:
    """Run the pipeline of DIR on this machine, by default of the working directory.

    It needs no service, no account and no configuration. DIR is packed as by `submit`, and so are the logs, the summary
    and the exit code. Images, cached steps and logs are kept in ~/.cache/ci-daemon, so that the next run is fast.

    Ctrl-C cancels the build and waits for its end; a second one ends at once.
    """
    if (shell is not None) + watch + plans > 1:
        raise click.UsageError("give one of --plan, --shell and --watch")
    if shell is not None and not has_terminal():
        raise Failure("--shell needs a terminal: run this at one")
    if pipeline is not None:
        check_slug(pipeline)
    ir = pipeline_ir(tree, ir_file)
    request = local.Request(tree, pipeline, ir, steps, env, secrets, shell, strict_shell, inputs)
    interrupts = local.BuildInterrupts()
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.disable()  # what is imported stays; to look for garbage in it is a tenth of the time to a first line
    with interrupts.handled():
        try:
            code = _run(session, request, interrupts, _plan if plans else _watch if watch else _once)
        except KeyboardInterrupt:
            code = 0
        finally:
            gc.enable()
            sys.setswitchinterval(switch_interval)
    return interrupts.exit_code or code


def _run(
    session: Session, request: Request, interrupts: BuildInterrupts, way: Callable[[Session, LocalRun], int]
) -> int:
    """Run an engine for the builds of a request, in one way or another; return the exit code.

    The first VMs are made while the modules that pack and render are imported.
    """
    say = partial(click.echo, err=session.json)
    folders = local.LocalFolders.of_user(os.environ)
    folders.make()
    config = local.local_config(folders, request.tree, os.environ)
    if request.strict_shell:
        config = replace(config, jobs=replace(config.jobs, strict_shell=True))
    if request.shell is not None:
        config = replace(config, jobs=replace(config.jobs, hold_seconds=_HOLD_SECONDS))
    directory = folders.project(request.tree)
    try:
        local.make_images(open_images(directory, config), directory, say, partial(_refuse_mistakes, request, config))
        with (
            local.local_service(directory, config, lambda pid: say(_busy(pid))) as service,
            interrupts.before_the_end(),
        ):
            runner = local.LocalRun(service, request, sys.stderr if session.json else sys.stdout, interrupts)
            code = way(session, runner)
        local.clean_up(folders, config)
    except VmError:
        local.check_host(directory)
        raise
    return code


def _refuse_mistakes(request: Request, config: Config) -> None:
    """Refuse mistakes in YAML files at once, and not after an image was made. Raises Failure."""
    from actors.render import RenderFailed  # noqa: PLC0415 - for the first run of all
    from ci_daemon.lint import refused  # noqa: PLC0415 - as above

    if request.ir is not None:
        return
    try:
        local.read_files(submission.pack(request.tree).data, local.ORGANIZATION, config)
    except RenderFailed as failure:
        raise Failure("\n".join(each.text for each in refused(failure).mistakes)) from failure


def _busy(pid: int | None) -> str:
    return f"waiting for {'another process' if pid is None else f'process {pid}'}, which runs this project"


def _plan(session: Session, runner: LocalRun) -> int:
    """Print the steps that would run, of this branch and commit."""
    from ci_daemon.command.support.pipeline_table import show_pipeline  # noqa: PLC0415 - a run needs none

    planned = runner.plan(lambda: submission.pack(runner.request.tree))
    if session.json:
        session.answer(planned.as_json(), "")
    else:
        show_pipeline(planned)
    return ExitCode.SUCCESS


def _once(session: Session, runner: LocalRun) -> int:
    """Build once; then open a shell if one is wanted."""
    build = runner.create(lambda: submission.pack(runner.request.tree))
    _look_for_garbage()
    summary = runner.follow(build)
    _show(session, runner.screen, summary)
    if runner.request.shell is not None and runner.interrupts.exit_code is None:
        _open_shell(runner, build, runner.request.shell)
    if any(row.job.error_code == JobErrorCode.LEASE_FAILED for row in summary.rows):
        local.check_host(runner.service.storage.directory)
    return EXIT_CODES[summary.build.state]


def _watch(session: Session, runner: LocalRun) -> int:
    """Build again and again, until an interrupt. A build of files that have changed since is canceled."""
    tree = runner.request.tree
    with local.TreeChanges(tree) as changes:
        while True:
            code = _build_again(session, runner, changes)
            if runner.interrupts.exit_code is not None:
                return code
            runner.screen.print(f"waiting for changes in {tree}; Ctrl-C ends this")
            changes.wait()


def _build_again(session: Session, runner: LocalRun, changes: TreeChanges) -> int:
    try:
        build = runner.create(changes.pack)
    except (submission.PackError, local.BuildRefused) as error:
        runner.screen.print(f"no build: {error}")
        return 1
    _look_for_garbage()
    with changes.telling(lambda: runner.service.cancel(build.id)):
        summary = runner.follow(build)
    _show(session, runner.screen, summary)
    return EXIT_CODES[summary.build.state]


def _look_for_garbage() -> None:
    """Collect garbage from now on, but none of what was imported until now."""
    gc.freeze()
    gc.enable()


def _show(session: Session, screen: Screen, summary: Summary) -> None:
    if session.json:
        click.echo(json.dumps(summary.as_json(), indent=2))
    else:
        screen.summarize(summary)


def _open_shell(runner: LocalRun, build: Build, step: str) -> None:
    """Open a shell in the VM of a failed step, until the caller leaves it."""
    from api.operations import NoTarget, find_target  # noqa: PLC0415 - most runs open none

    service = runner.service
    job = local.step_named(service.storage.jobs.of_build(build.id), step)
    try:
        target = find_target(service.storage, build, job.step_key)
    except NoTarget:
        runner.screen.print(f"there is no VM to look into: {job.name} is {job.state}")
        return
    runner.screen.print(f"a shell in the VM of {job.name}; the VM ends with it")
    with closing(
        debugging.open_shell(service.storage, service.images, service.providers, service.config, target)
    ) as shell:
        shell.run(())
