"""`ci-daemon incus`: prepare an Incus or LXD server or cluster for VMs, and look at its members."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.vms import IncusSettings
    from actors.vms.incus import MemberContents

_COLUMNS = ("name", "state", "cpus", "memory_mb", "memory_free_mb", "vms", "snapshots", "images", "message")


@click.group(cls=Group)
def incus() -> None:
    """An Incus or LXD server or cluster that makes VMs."""


@incus.command()
@click.option("--token", help="What `incus config trust add ci-daemon` printed, if the engine is on another host.")
@pass_session
def setup(session: Session, *, token: str | None) -> None:
    """Prepare an engine: a project, a network that is closed to private ones, a profile, a certificate.

    Run it as root on a member, whose socket it uses, or with a --token from anywhere. What is there and right is left
    as it is, so it can be run again. The certificate that it makes for the service is good in the project alone.
    """
    from actors.vms import VmError  # noqa: PLC0415 - other commands speak to no engine
    from ci_daemon.engine import prepare_engine  # noqa: PLC0415 - as above

    config = session.config()
    try:
        prepared = prepare_engine(session.state_dir, config, token, SystemClock().now())
    except VmError as error:
        raise Failure(str(error)) from None
    steps = [asdict(step) for step in prepared.steps]
    if session.json:
        session.answer({"steps": steps, "addresses": list(prepared.addresses)}, "")
        return
    session.table(steps, ("part", "done"), "")
    click.echo("\nLet the configuration have this; `ci-daemon incus status` lists the members:\n")
    click.echo(_toml(config.incus, prepared.addresses))


@incus.command(reads=True)
@pass_session
def status(session: Session) -> None:
    """List the members, with the processors and memory of each, and the VMs, snapshots and images on it."""
    from actors.vms import VmError  # noqa: PLC0415 - as above
    from ci_daemon.engine import contents_of  # noqa: PLC0415 - as above

    try:
        found = contents_of(session.state_dir, session.config())
    except VmError as error:
        raise Failure(str(error)) from None
    documents = [_document(each) for each in found]
    rows = documents if session.json else map(_row, documents)
    session.table(list(rows), _COLUMNS, "the engine has no members")


def _document(found: MemberContents) -> dict[str, Any]:
    kept = {"vms": found.instances, "snapshots": found.snapshots, "images": list(found.images)}
    return {**asdict(found.member), **kept}


def _row(document: Mapping[str, Any]) -> dict[str, object]:
    state = f"{document['state']}, draining" if document["draining"] else document["state"]
    return {**document, "state": state, "images": ", ".join(document["images"])}


def _toml(settings: IncusSettings, addresses: Sequence[str]) -> str:
    """Return the settings of an engine at these addresses, or else at a socket."""
    way = f"addresses = {json.dumps(list(addresses))}" if addresses else f"socket = {json.dumps(str(settings.socket))}"
    return f'[pool]\nprovider = "incus"\n\n[incus]\n{way}\nstorage = {json.dumps(settings.storage)}'
