"""Previews: the disks of passed jobs that serve a port on a host of their own (engine.md, "Previews")."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, POST, Call, Found, Whole, done, operation
from api.operations.things import BUILD, ThisBuild, ThisCaller, ThisMembership
from storage import Preview, PreviewState, Storage, example, immutable, price

if TYPE_CHECKING:
    from datetime import datetime

    from api.operations.service import Service
    from storage import Caller, Uuid

PREVIEW = f"{BUILD}/previews/{{preview}}"
ENTRANCE = "/.ci-daemon/enter"
"""The path of a preview's host at which members enter."""

ENTRY = "preview entry"
"""The purpose of the signed text by which they do: preview, user, token, end, and a nonce."""

_LIFETIME = timedelta(minutes=1)
_SECONDS_OF_HOUR, _MICRO_CENTS = 3600, 1_000_000


@immutable
class PreviewRecord:
    """A preview of what a job has built.

    ``state`` is ``asleep`` until somebody looks, then ``waking`` and ``awake``, and ``gone`` at last. It is for
    members, or ``for_everyone``. It is gone at ``until``, if not
    before. ``failure`` is why it did not answer the last time, with the last that its command has printed.
    """

    uuid: Uuid
    job_id: Uuid
    step_key: str = example("site")
    url: str | None = example(
        "https://preview-9b2e6f0c-3f5b-5a3e-8a53-0d6f2f3b7a11.previews.example.net",
        "Its address; null if the service has none for previews any more.",
    )
    state: PreviewState
    for_everyone: bool = example(value=False)
    cents_per_hour: int = example(12, "The price of its VM while it is awake.")
    created_at: datetime
    until: datetime
    looked_at: datetime | None
    failure: str | None
    ended_at: datetime | None
    why_ended: str | None = example("the pull request 7 was closed")


BuildPreviews = Annotated[list[PreviewRecord], Whole("The previews of the build's jobs, oldest first.")]


@immutable
class PreviewEntry:
    """An address by which the caller enters a preview in a browser, once and within a minute."""

    url: str = example("https://preview-9b2e6f0c-3f5b-5a3e-8a53-0d6f2f3b7a11.previews.example.net/")


def _preview(call: Call, build: ThisBuild, preview: str) -> Preview:
    found = call.storage.previews.by_uuid(preview)
    job = None if found is None else call.storage.jobs.get(found.job_id)
    if found is None or job is None or job.build_id != build.id:
        raise ApiError.not_found("preview", preview)
    return found


ThisPreview = Annotated[Preview, Found(_preview, ("preview_not_found",))]
"""The preview ``{preview}`` of the build."""


@operation("listPreviews", GET, f"{BUILD}/previews", "The previews.")
def list_previews(call: Call, _member: ThisMembership, build: ThisBuild) -> BuildPreviews:
    """List the previews of a build, also those that are gone."""
    return [_record(call.service, each) for each in call.storage.previews.of_build(build.id)]


@operation(
    "openPreview",
    POST,
    f"{PREVIEW}/entries",
    "The address.",
    errors=("preview_ended",),
    changes=False,
)
def open_preview(call: Call, _member: ThisMembership, preview: ThisPreview, caller: ThisCaller) -> PreviewEntry:
    """Get an address by which the caller enters a preview in a browser."""
    return PreviewEntry(entry(call.service, preview, caller, "/"))


@operation("endPreview", DELETE, PREVIEW, done("It has ended, or had before."))
def end_preview(call: Call, _member: ThisMembership, preview: ThisPreview) -> None:
    """End a preview, and with it its VM."""
    call.engine.previews.end(preview, "a member ended it")


def entry(service: Service, preview: Preview, caller: Caller, target: str) -> str:
    """Return the address by which a member enters a preview at a path. Raises ApiError ``preview_ended``."""
    hosts, serving = service.engine.previews.hosts, service.serving
    if preview.ended_at is not None:
        raise ApiError("preview_ended", f"the preview has ended: {preview.why_ended}")
    if hosts is None or serving is None:
        raise ApiError("preview_ended", "this service has no address for previews any more: see previews.url")
    address, target = hosts.address(preview.uuid), local_target(target)
    if preview.public:
        return f"{address}{target}"
    until = (service.clock.now() + _LIFETIME).timestamp()
    grant = [preview.uuid, caller.user.id, caller.token_id, int(until), secrets.token_hex(8)]
    return f"{address}{ENTRANCE}?{urlencode({'token': serving.signer.sign(ENTRY, grant), 'to': target})}"


def local_target(target: str) -> str:
    """Return a path with its query, if it is one of the same host; else the root."""
    plain = target.isascii() and target.isprintable() and " " not in target and "\\" not in target
    return target if plain and target.startswith("/") and not target.startswith("//") else "/"


def _record(service: Service, preview: Preview) -> PreviewRecord:
    job = service.storage.jobs.get(preview.job_id)
    assert job is not None  # noqa: S101 - previews go with their jobs
    hosts = service.engine.previews.hosts
    return PreviewRecord(
        uuid=preview.uuid,
        job_id=job.uuid,
        step_key=job.step_key,
        url=None if hosts is None else hosts.address(preview.uuid),
        state=preview.state,
        for_everyone=preview.public,
        cents_per_hour=cents_per_hour(service.storage, preview),
        created_at=preview.created_at,
        until=preview.until,
        looked_at=preview.looked_at,
        failure=preview.failure,
        ended_at=preview.ended_at,
        why_ended=preview.why_ended,
    )


def cents_per_hour(storage: Storage, preview: Preview) -> int:
    """Return the price of a preview's VM while it is awake."""
    lease = storage.leases.by_uuid(preview.disk)
    return 0 if lease is None else price(storage.billing, lease.shape) * _SECONDS_OF_HOUR // _MICRO_CENTS
