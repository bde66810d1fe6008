"""`ci-daemon claim`: let a copied state directory be served."""

from __future__ import annotations

import click

from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.host.lock import served_by
from ci_daemon.host.place import claim_place, discard_vms, engine_prefix, is_copy
from ci_daemon.terminal import counted


@click.command(cls=Command)
@click.option("--copy", is_flag=True, help="The original lives on: its VMs stay its own.")
@pass_session
def claim(session: Session, *, copy: bool) -> None:
    """Let a copied state directory be served, once its original is gone, or by its side.

    A service does not start in a copy of its state directory, because the VMs that it names may be the original's.
    After a move to another disk, when nobody serves the original any more, the VMs are this directory's.

    With --copy the VMs stay the original's: this directory forgets them, and their jobs run again in VMs of its own. If
    VMs are on an Incus server, first set incus.prefix in the copy's configuration to another value.
    """
    if served_by(session.state_dir) is not None:
        raise Failure("the service runs: stop it first")
    if not is_copy(session.state_dir):
        session.answer({"claimed": False}, f"{session.state_dir} is no copy: nothing to do")
        return
    config = session.config()
    if copy and (session.state_dir / "incus").is_dir() and config.incus.prefix == engine_prefix(session.state_dir):
        raise Failure("set incus.prefix of this copy to another value first: the original's VMs have this one")
    with session.storage():  # the claim is noted in the audit of this directory, not of the original
        forgotten = discard_vms(session.state_dir) if copy else 0
        claim_place(session.state_dir, config.incus.prefix)
    text = "the original's VMs stay its own" if copy else "its VMs are this directory's"
    said = f"; {counted(forgotten, 'VM')} forgotten" if forgotten else ""
    session.answer({"claimed": True, "forgotten_vms": forgotten}, f"{session.state_dir} may be served: {text}{said}")
