"""The pages below ``/admin``, which show what operations of the host's owner answer, and their forms."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from api.console.host.owner import OwnerForm, OwnerPage, OwnersConsole, SignInPage, SignOutForm
from api.console.pages import whole_number
from api.operations import audit, caches, host, images, leases, queue, retention, users
from api.operations.operation import Span
from storage import AuditFilter, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import falcon

    from api.console.site import Site
    from api.doors import LocalDoor
    from api.openapi.operations import Routes
    from api.operations import Box

_ROWS = 100
_ADMIN = "/admin"


@immutable
class Part:
    """A part of a list, which begins at row ``start``.

    ``after`` is the row at which the next one begins, None at the end. ``total`` is None if nobody counted.
    """

    rows: Sequence[Any]
    start: int
    after: int | None
    total: int | None = None

    @property
    def before(self) -> int | None:
        """The row at which the part before this one begins; None at the beginning."""
        return max(0, self.start - _ROWS) if self.start else None


@immutable
class PipelineDisks:
    """The cached disks of a pipeline in numbers."""

    organization: str
    pipeline: str
    disks: int
    bytes: int
    hits: int


def add_host_pages(routes: Routes, site: Site, box: Box) -> None:
    """Route the pages of the host's owner."""
    console = OwnersConsole(site, box)
    for name, values in (
        ("queue", _queue),
        ("vms", partial(_vms, site)),
        ("members", _members),
        ("images", _images),
        ("caches", _caches),
        ("disk", _disk),
        ("users", _users),
        ("doctor", _doctor),
        ("audit", _audit),
    ):
        routes.add_page(f"{_ADMIN}/{name}", OwnerPage(console, name, values))
    routes.add_page(_ADMIN, OwnerPage(console, "overview", _overview))
    routes.add_page(f"{_ADMIN}/sign-in", SignInPage(site))
    routes.add_page(f"{_ADMIN}/sign-out", SignOutForm(site))
    for path, form in _forms(console):
        routes.add_page(f"{_ADMIN}/{path}", form)


def _forms(console: OwnersConsole) -> Sequence[tuple[str, OwnerForm]]:
    """Return the forms of the pages by their paths."""
    return (
        ("drain", OwnerForm(console, queue.drain, "admin")),
        ("resume", OwnerForm(console, queue.resume, "admin")),
        ("vms/{id}/end", OwnerForm(console, leases.kill_vm, "admin/vms", _provider)),
        ("images/pull", OwnerForm(console, images.pull_image, "admin/images", _reference)),
        ("images/remove", OwnerForm(console, images.remove_image, "admin/images", in_path=("name",))),
        ("caches/clear", OwnerForm(console, caches.clear_caches, "admin/caches", _selection)),
        ("users/add", OwnerForm(console, users.create_user, "", _name, in_path=("email",), shown="user_added")),
        ("users/link", OwnerForm(console, users.create_user_link, "", in_path=("email",), shown="user_link")),
        ("users/remove", OwnerForm(console, users.remove_user, "admin/users", in_path=("email",))),
    )


def _overview(door: LocalDoor, _req: falcon.Request) -> Mapping[str, object]:
    return {
        "state": door.perform(host.get_host_state, {}),
        "use": door.perform(queue.get_drain, {}),
        "disk": door.perform(retention.get_disk_use, {}),
    }


def _queue(door: LocalDoor, req: falcon.Request) -> Mapping[str, object]:
    start = _start(req)
    found = door.perform(queue.list_queue, {}, queue.QueuePart(_ROWS + 1, start))
    after = start + _ROWS if len(found) > _ROWS else None
    state = door.perform(host.get_host_state, {})
    return {"part": Part(found[:_ROWS], start, after), "state": state}


def _vms(site: Site, door: LocalDoor, req: falcon.Request) -> Mapping[str, object]:
    chosen, by_cost, start = req.get_param("state") or "", req.get_param("sort") == "cost", _start(req)
    found = door.perform(leases.list_leases, {}, leases.LeaseSelection(chosen or None, by_cost, start, _ROWS))
    total = found.states.get(chosen, 0) if chosen else sum(found.states.values())
    part = Part(found.vms, start, start + _ROWS if start + _ROWS < total else None, total)
    sort = "cost" if by_cost else "age"
    return {"part": part, "counts": found.states, "chosen": chosen, "sort": sort, "amount": site.amount}


def _members(door: LocalDoor, _req: falcon.Request) -> Mapping[str, object]:
    return {"members": door.perform(host.list_host_members, {})}


def _images(door: LocalDoor, _req: falcon.Request) -> Mapping[str, object]:
    return {"images": door.perform(images.list_images, {})}


def _caches(door: LocalDoor, _req: falcon.Request) -> Mapping[str, object]:
    entries = door.perform(caches.list_cached_disks, {}, caches.CacheSelection())
    by_pipeline = groupby(sorted(entries, key=_pipeline_of), key=_pipeline_of)
    grouped = ((organization, pipeline, list(each)) for (organization, pipeline), each in by_pipeline)
    folders = door.perform(caches.list_kept_folders, {})
    disks = [
        PipelineDisks(
            organization, pipeline, len(each), sum(one.bytes or 0 for one in each), sum(one.hits for one in each)
        )
        for organization, pipeline, each in grouped
    ]
    return {
        "use": door.perform(caches.get_cache_use, {}, caches.CacheSelection()),
        "disks": sorted(disks, key=lambda each: -each.bytes),
        "folders": sorted(folders, key=lambda each: -each.bytes),
    }


def _disk(door: LocalDoor, _req: falcon.Request) -> Mapping[str, object]:
    return {"disk": door.perform(retention.get_disk_use, {})}


def _users(door: LocalDoor, req: falcon.Request) -> Mapping[str, object]:
    words = (req.get_param("q") or "").strip()
    found = [
        each
        for each in door.perform(users.list_users, {})
        if words.lower() in f"{each.email} {each.name} {each.personal_org_slug}".lower()
    ]
    return {"part": _part_of(found, _start(req)), "words": words}


def _doctor(door: LocalDoor, req: falcon.Request) -> Mapping[str, object]:
    findings = door.perform(host.examine_host, {}) if req.get_param("run") else None
    return {"findings": None if findings is None else sorted(findings, key=lambda each: (each.ok, not each.needed))}


def _audit(door: LocalDoor, req: falcon.Request) -> Mapping[str, object]:
    given = {name: (req.get_param(name) or "").strip() for name in ("actor", "action", "organization")}
    actor, action, organization = (text or None for text in given.values())
    wanted = AuditFilter(actor=actor, action=action, organization=organization)
    page = door.page(audit.list_changes, {}, wanted, Span(_ROWS, whole_number(req.get_param("before"))))
    return {"entries": page.rows, "more": page.next_key, "given": given}


def _start(req: falcon.Request) -> int:
    """Return the row at which the asked part of a list begins."""
    return whole_number(req.get_param("from")) or 0


def _part_of(rows: Sequence[Any], start: int) -> Part:
    end = start + _ROWS
    return Part(rows[start:end], start, end if end < len(rows) else None, len(rows))


def _pipeline_of(entry: Any) -> tuple[str, str]:  # noqa: ANN401 - mypy infers it of what is sorted
    return entry.organization_slug, entry.pipeline_slug


def _provider(fields: Mapping[str, str]) -> leases.KillVmRequest:
    return leases.KillVmRequest(fields.get("provider", ""))


def _reference(fields: Mapping[str, str]) -> images.PullImageRequest:
    return images.PullImageRequest(fields.get("reference", ""))


def _selection(fields: Mapping[str, str]) -> caches.CacheSelection:
    return caches.CacheSelection(fields.get("org") or None, fields.get("pipeline") or None)


def _name(fields: Mapping[str, str]) -> Mapping[str, str]:
    return {"name": fields.get("name", "")}
