"""`ci-daemon image`: the images that VMs start from."""

from __future__ import annotations

from functools import partial
from typing import IO, TYPE_CHECKING

import click

from actors.vms.images import PullOptions, Reference, is_name
from api.operations import images as operations
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.providers import open_images
from ci_daemon.terminal.progress import progress_line
from storage import NotInitialized, timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.vms import Images
    from actors.vms.images import Image
    from ci_daemon.config import Config

_COLUMNS = ("name", "default", "mib", "users", "source", "last_used_at")
_OF_ENGINE = "incus:"
_MIB = 2**20
_GB = 2**30


@click.group(cls=Group)
def image() -> None:
    """Root file systems that VMs start from."""


@image.command(name="list", reads=True)
@pass_session
def list_images(session: Session) -> None:
    """List the images of the store, and how many leases and disks use each.

    State directories may share a store; the users are those of this one. SOURCE is the origin of an image. An image
    that was pulled on demand, for a job, is removed when it has not been used for images.unused_days.
    """
    images = open_images(session.state_dir, session.config())
    users = _users(session, images)
    documents = [
        {
            **_document(each),
            "default": each.name == images.default,
            "users": len(users.get(each.name, ())),
            "used_by": list(users.get(each.name, ())),
        }
        for each in images.store.list()
    ]
    session.table(documents, _COLUMNS, "no images yet: run `ci-daemon image build`")


@image.command()
@click.argument("name", required=False)
@pass_session
def default(session: Session, *, name: str | None) -> None:
    """Show the image of steps that name none, or change it to the image NAME.

    The service uses it from its next VM on. images.default in the configuration takes precedence.
    """
    session.audited = name is None
    config = session.config()
    images = open_images(session.state_dir, config)
    if name is not None:
        if config.images.default not in {None, name}:
            raise Failure(f"images.default in the configuration is {config.images.default}: change or remove it there")
        images.store.choose(name)
    missing = "" if images.default in images.store.names() else ", but does not exist yet"
    session.answer({"default": images.default}, f"{images.default} is the default image{missing}")


@image.command()
@click.argument("name", required=False)
@click.option("--mirror", metavar="URL", help="The mirror of packages; by default the one of this host.")
@pass_session
def build(session: Session, *, name: str | None, mirror: str | None) -> None:
    """Build the image NAME, such as debian:12, with mmdebstrap; without a name the default one.

    Takes half a minute. If the image exists, nothing happens. Without a name, the image whose sshd serves VMs
    (sandbox.base_image) is built too, if it is another one and missing.
    """
    images = open_images(session.state_dir, session.config())
    store, wanted = images.store, name or images.default
    before = wanted in store.names()
    with progress_line(f"building {wanted}") as progress:
        made = store.build(wanted, mirror=mirror, progress=progress)
        if name is None and images.base not in store.names():
            store.build(images.base, mirror=mirror, progress=progress)
    session.answer(_document(made), f"the image {wanted} already exists" if before else _summary(made))


@image.command()
@click.argument("reference", metavar="REF")
@click.option("--as", "name", metavar="NAME", help="The name of the image here; by default its name in the registry.")
@pass_session
def pull(session: Session, *, reference: str, name: str | None) -> None:
    """Make an image of REF, such as debian:12-slim or ghcr.io/team/base:1, with skopeo and umoci.

    Images that jobs name are pulled automatically (images.on_demand), each tag once: this command pulls it again, from
    any registry, and keeps it. A digest (NAME@sha256:...) is always the same image.

    Any image with /bin/sh will do. Commands get the variables that it sets; its user, working directory and entry point
    are ignored. `skopeo login HOST` logs in to a registry.

    incus:ALIAS is the image for containers that the configured engine has under this alias, in the service's project.
    """
    config = session.config()
    if reference.startswith(_OF_ENGINE):
        made = _pull_from_engine(session, config, reference.removeprefix(_OF_ENGINE), name or reference)
        session.answer(_document(made), _summary(made))
        return
    wanted = Reference.parse(reference)
    name = name or wanted.short
    if not is_name(name):
        raise Failure(f"{name} is not a valid image name: choose one with --as NAME")
    images = open_images(session.state_dir, config)
    with progress_line(f"pulling {wanted.short}") as progress:
        options = PullOptions(
            max_bytes=config.images.max_bytes,
            keep_free=int(config.pool.low_disk_gb * _GB),
            timeout=config.images.timeout,
            progress=progress,
            networks=config.images.allowed_networks,
        )
        made = images.store.pull(
            wanted, name, options, users=lambda: _users(session, images, cached=False).get(name, ())
        )
    session.answer(_document(made), _summary(made))


def _pull_from_engine(session: Session, config: Config, alias: str, name: str) -> Image:
    from actors.vms.incus import ROOT  # noqa: PLC0415 - other commands speak to no engine
    from ci_daemon.engine import engine_image  # noqa: PLC0415 - as above

    if not is_name(name):
        raise Failure(f"{name} is not a valid image name: choose one with --as NAME")
    images = open_images(session.state_dir, config)
    with progress_line(f"pulling {alias} from the engine"), engine_image(session.state_dir, config, alias) as tar:
        source = f"pulled {_OF_ENGINE}{alias}"
        users = partial(_users, session, images, cached=False)
        return images.store.take(name, tar, ROOT, source, users=lambda: users().get(name, ()))


@image.command(name="import")
@click.argument("name")
@click.argument("tar", metavar="TAR", type=click.File("rb"))
@pass_session
def import_image(session: Session, *, name: str, tar: IO[bytes]) -> None:
    """Make the image NAME of the root file system in TAR, plain or compressed; - is stdin.

    All that it needs is /bin/sh.
    """
    store = open_images(session.state_dir, session.config()).store
    made = store.import_(name, tar, source=f"imported from {'stdin' if tar.name == '<stdin>' else tar.name}")
    session.answer(_document(made), _summary(made))


@image.command()
@click.argument("name")
@pass_session
def remove(session: Session, *, name: str) -> None:
    """Remove the image NAME.

    Refused for the default image, while VMs or disks of this state directory use it, including cached disks, and while
    its sshd serves VMs (sandbox.base_image).
    """
    images = open_images(session.state_dir, session.config())
    operations.remove_from(images, name, _users(session, images).get(name, ()))
    session.answer({"removed": name}, f"removed {name}")


def _users(session: Session, images: Images, *, cached: bool = True) -> Mapping[str | None, tuple[str, ...]]:
    """Return the leases and disks that use each image; none before `ci-daemon init`."""
    try:
        with session.storage() as storage:
            return operations.users_of_images(storage, images, cached=cached)
    except NotInitialized:
        return {}


def _document(made: Image) -> dict[str, object]:
    return {
        "name": made.name,
        "bytes": made.size,
        "mib": made.size // _MIB,
        "source": f"{made.source}, on demand" if made.on_demand else made.source,
        "on_demand": made.on_demand,
        "created_at": timestamp(made.created),
        "last_used_at": timestamp(made.used) if made.used else None,
        "environment": dict(made.environment),
    }


def _summary(made: Image) -> str:
    size = f"{made.size // _MIB} MiB" if made.size >= _MIB else "less than 1 MiB"
    return f"made the image {made.name}: {size}, {made.source}"
