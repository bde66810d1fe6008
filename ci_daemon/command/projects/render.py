"""`ci-daemon render`: print the IR of a tree's pipeline files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from actors import render as rendering
from actors import vms
from actors.ir import Built, IrError, IrSettings, load
from ci_daemon import lint as linting
from ci_daemon import local
from ci_daemon import submit as submission
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.pipeline_files import inputs_option, strict_shell_flag
from ci_daemon.command.support.session import Failure, Session, become_owner, pass_session
from ci_daemon.providers import open_images, open_providers
from ci_daemon.terminal.text import printable
from storage import SystemClock


@click.command(cls=CallerCommand, reads=True)
@click.argument("tree", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--pipeline", metavar="SLUG", help="Which one; needed only where DIR has several.")
@click.option("--org", metavar="SLUG", default="default", show_default=True, help="For the keys of cached steps.")
@inputs_option
@strict_shell_flag
@pass_session
def render(
    session: Session, *, tree: Path, pipeline: str | None, org: str, inputs: dict[str, str], strict_shell: bool
) -> None:
    """Render the pipeline files of DIR, .hm/*.py, in a VM, and print the IR.

    `submit --ir`, `run --ir` and the API accept it. It needs no service; on the box it takes the service's image. The
    warnings of `lint` are printed on stderr. With --input it is that of a build that is given these inputs.
    """
    built = Built(inputs=inputs) if inputs else None
    try:
        files = linting.PipelineFiles.read(tree)  # before the owner of the box is this process's user
        if session.owns_box():
            envelope = _on_box(session, tree, pipeline, org, built)
            strict = session.config().jobs.strict_shell
        else:
            source = local.render_tree(tree, lambda line: click.echo(line, err=True), organization=org, built=built)
            envelope, strict = source.envelope, source.strict_shell
        declared = submission.select_declared(envelope, tree, pipeline)
        if built is not None:
            load(declared.pipeline_ir, IrSettings(), built)
    except rendering.RenderFailed as failure:
        raise Failure("\n".join(each.text for each in linting.refused(failure).mistakes)) from failure
    except (submission.SeveralPipelines, vms.VmError, IrError) as failure:
        raise Failure(str(failure)) from failure
    click.echo(json.dumps(declared.definition, indent=2))
    linted = linting.check_declared(declared, files, IrSettings(), strict_shell=strict or strict_shell)
    for warning in linted.warnings:
        click.echo(f"warning: {printable(str(warning))}", err=True)


def _on_box(session: Session, tree: Path, pipeline: str | None, org: str, built: Built | None) -> rendering.Envelope:
    """Render a tree in a VM of the service, which need not run. Raises RenderFailed and VmError."""
    # Only the caller may be able to read the tree; the VM must be the service's.
    source = submission.pack(tree)
    become_owner(session.state_dir)
    config, clock = session.config(), SystemClock()
    images = open_images(session.state_dir, config)
    provider = open_providers(session.state_dir, config, images, clock).named(config.pool.provider)
    archive = rendering.SourceArchive(org, pipeline or submission.default_slug(tree), source.data, built)
    with session.storage() as storage:
        min_free = config.jobs.min_free_bytes
        return rendering.ArchiveRenderer(storage, provider, images, clock, config.render, min_free).render(archive)
