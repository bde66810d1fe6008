"""`ci-daemon image`: what VMs start from."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click

from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Group
from ci_daemon.providers import open_images
from storage import NotInitialized

if TYPE_CHECKING:
    from actors.vms.images import Image

__all__ = ["image"]

_MIB = 2**20


@click.group(cls=Group)
def image() -> None:
    """Root file systems that VMs start from."""


@image.command(name="list", short_help="List the images there are.")
@pass_session
def list_images(session: Session) -> None:
    """List the images of the store, which several state directories may share."""
    store = open_images(session.state_dir, session.config()).store
    documents = [_document(each) for each in store.list()]
    session.table(documents, ("name", "mib", "source", "created_at"), "no images yet: run `ci-daemon image build`")


@image.command(short_help="Make an image of a Debian or Ubuntu release.")
@click.argument("name", required=False)
@click.option("--mirror", metavar="URL", help="Where packages come from; by default where this host's come from.")
@pass_session
def build(session: Session, *, name: str | None, mirror: str | None) -> None:
    """Make the image NAME, such as debian:12, by mmdebstrap; without a name the default one.

    Takes half a minute. Where it is there already, nothing happens.
    """
    config = session.config()
    store = open_images(session.state_dir, config).store
    name = name or config.images.default
    before = name in store.names()
    made = store.build(name, mirror=mirror, progress=lambda line: click.echo(line, err=True))
    session.answer(_document(made), f"the image {name} is there already" if before else f"made {_told(made)}")


@image.command(name="import", short_help="Make an image of a root file system's tar.")
@click.argument("name")
@click.argument("tar", metavar="TAR", type=click.File("rb"))
@pass_session
def import_image(session: Session, *, name: str, tar: IO[bytes]) -> None:
    """Make the image NAME of the root file system in TAR, plain or compressed; - is stdin.

    It needs a shell, sshd and the usual small programs; what it lacks is said.
    """
    store = open_images(session.state_dir, session.config()).store
    made = store.import_(name, tar, source=f"imported from {tar.name}")
    session.answer(_document(made), f"imported {_told(made)}")


@image.command(short_help="Remove an image.")
@click.argument("name")
@pass_session
def remove(session: Session, *, name: str) -> None:
    """Remove the image NAME. Refused while VMs or disks of this state directory start from it, cached ones too."""
    store = open_images(session.state_dir, session.config()).store
    store.remove(name, used_by=_users(session, name))
    session.answer({"removed": name}, f"removed {name}")


def _users(session: Session, name: str) -> list[str]:
    """Name the leases and snapshots that stand on an image."""
    try:
        with session.storage() as storage:
            leases = [f"lease {each.uuid}" for each in storage.leases.live() if each.image == name]
            cached = {entry.snapshot for entry in storage.cache.entries() if entry.name.image == name}
            snapshots = [
                f"snapshot {each.name}"
                for each in storage.snapshots.all()
                if each.name not in cached
                and (lease := storage.leases.of_job(each.job_id)) is not None
                and lease.image == name
            ]
            disks = f"{len(cached)} cached disks (`ci-daemon cache clear` frees them)"
            return leases + snapshots + ([disks] if cached else [])
    except NotInitialized:
        return []


def _document(made: Image) -> dict[str, object]:
    return {
        "name": made.name,
        "bytes": made.size,
        "mib": made.size // _MIB,
        "source": made.source,
        "created_at": on_the_wire(made.created),
    }


def _told(made: Image) -> str:
    return f"{made.name}: {made.size // _MIB} MiB, {made.source}"
