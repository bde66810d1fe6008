"""The images that VMs start from, for the owner of the host (engine.md, "Images")."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime  # noqa: TC003 - a command reads the annotations
from functools import partial
from typing import TYPE_CHECKING, Annotated

from actors.vms.images import Reference, is_name
from api.operations.operation import DELETE, GET, POST, Call, Refused, owners_operation
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.vms import Images
    from actors.vms.images import Image
    from storage import Storage

_NAMED = "/images/{name}"


@immutable
class HostImage:
    """An image of the store: ``bytes`` on disk, and the leases and disks of this service that use it.

    ``last_used_at`` is when a job last started from it, if that was recorded. One that is ``on_demand`` was pulled for
    a job, and is removed when it was unused for long.
    """

    name: str
    default: bool
    bytes: int
    source: str
    on_demand: bool
    created_at: datetime
    last_used_at: datetime | None
    used_by: tuple[str, ...]


@immutable
class PullImageRequest:
    """The body of `pull_image`: the image at its registry, such as ``ghcr.io/team/base:1``."""

    reference: str


@owners_operation("listImages", GET, "/images")
def list_images(call: Call) -> Annotated[list[HostImage], "All images by name."]:
    """List the images of the store, and what uses them here."""
    images = call.box.images
    users = users_of_images(call.storage, images)
    return [image_of(images, each, users.get(each.name, ())) for each in images.store.list()]


@owners_operation("pullImage", POST, "/images")
def pull_image(call: Call, body: PullImageRequest) -> HostImage:
    """Pull an image from its registry, also one that is here, and keep it. Raises Refused and VmError.

    Takes as long as the download.
    """
    wanted = Reference.parse(body.reference.strip())
    name, images = wanted.short, call.box.images
    if not is_name(name):
        raise Refused(f"{name} is not a valid image name: `ci-daemon image pull` takes another one with --as NAME")
    made = images.store.pull(
        wanted,
        name,
        call.box.pull_options(),
        users=lambda: users_of_images(call.storage, images, cached=False).get(name, ()),
    )
    return image_of(images, made, ())


@owners_operation("removeImage", DELETE, _NAMED)
def remove_image(call: Call, name: str) -> None:
    """Remove an image that nothing uses. Raises Refused for the default one, and VmError."""
    images = call.box.images
    remove_from(images, name, users_of_images(call.storage, images).get(name, ()))


def remove_from(images: Images, name: str, used_by: tuple[str, ...]) -> None:
    """Remove an image that nothing uses, also where no service is. Raises as `remove_image` does."""
    if name == images.default:
        images.store.get(name)
        raise Refused(f"{name} is the default image: choose another one first, with `ci-daemon image default NAME`")
    images.store.remove(name, used_by=used_by)


def image_of(images: Images, each: Image, used_by: tuple[str, ...]) -> HostImage:
    """Return the record of an image of the store."""
    return HostImage(
        name=each.name,
        default=each.name == images.default,
        bytes=each.size,
        source=each.source,
        on_demand=each.on_demand,
        created_at=each.created,
        last_used_at=each.used,
        used_by=used_by,
    )


def users_of_images(storage: Storage, images: Images, *, cached: bool = True) -> Mapping[str | None, tuple[str, ...]]:
    """Return the leases and disks that use each image.

    Without ``cached``, cached disks are left out: builds can do without them.
    """
    users: defaultdict[str | None, list[str]] = defaultdict(list)
    for lease in storage.leases.live():
        users[lease.image].append(f"lease {lease.uuid}")
        job = None if lease.job_id is None else storage.jobs.get(lease.job_id)
        if job is not None:
            logins = partial(storage.registry_logins.usable, job.organization_id, job.build_id)
            for service in job.all_services.values():
                users[images.resolve(service.image, logins)].append(f"lease {lease.uuid}")
    entries = {entry.snapshot: entry.image for entry in storage.cache.entries()}
    for snapshot in storage.snapshots.all():
        left = storage.leases.of_job(snapshot.job_id)
        if snapshot.name not in entries and left is not None:
            users[left.image].append(f"snapshot {snapshot.name}")
    for name, count in Counter(entries.values() if cached else ()).items():
        disks = "1 cached disk" if count == 1 else f"{count} cached disks"
        users[name].append(f"{disks} (`ci-daemon cache clear` frees the cache)")
    return {name: tuple(each) for name, each in users.items()}
