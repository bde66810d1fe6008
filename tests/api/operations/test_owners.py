"""Operations of the owner of the host alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from actors.vms import Provider, Providers, VmError
from api.doors.http import HttpDoor
from api.doors.local import LocalDoor, service_elsewhere
from api.errors.catalog import ApiError
from api.operations import api_tokens, builds, leases
from storage import BuildState, NewBuild, Storage, TokenKind, UserUnknown
from tests.clock import ManualClock
from tests.records import new_job, new_owner, new_pipeline, started


@pytest.fixture
def door(storage: Storage, clock: ManualClock) -> LocalDoor:
    return LocalDoor(service_elsewhere(storage, clock), "root", "uid 0")


class Stubborn(Provider):
    """A provider that destroys no VM of these ids, and is interrupted at others."""

    def __init__(self, *ids: str) -> None:
        self._ids = ids

    def destroy(self, vm_id: str) -> None:
        if vm_id not in self._ids:
            raise KeyboardInterrupt
        raise VmError("its disk is busy")


def door_to(provider: Provider, storage: Storage, clock: ManualClock) -> LocalDoor:
    """Return the owner's door to a host with a provider and no running service."""
    box: Any = SimpleNamespace(providers=Providers({"sandbox": lambda: provider}, ["sandbox"]), serves=lambda: False)
    return LocalDoor(replace(service_elsewhere(storage, clock), box=box), "root", "uid 0")


def test_a_build_is_ended_although_its_vm_is_not(storage: Storage, clock: ManualClock):
    pipeline = new_pipeline(storage)
    build = storage.builds.create(pipeline, NewBuild("main", "c0ffee"), [new_job()])
    lease = started(storage, storage.jobs.of_build(build.id)[0])
    names = {"org": "acme", "pipeline": "web", "number": "1"}
    body = builds.ForceFinishRequest(BuildState.FAILED, "it hangs")
    ended = door_to(Stubborn(lease.uuid), storage, clock).perform(builds.force_finish_build, names, body)
    assert (ended.build.state, ended.destroyed, ended.errors) == ("failed", 0, (f"{lease.uuid}: its disk is busy",))
    assert [each.uuid for each in storage.leases.live()] == [lease.uuid]
    (entry,) = storage.audit.page(10, None).rows
    assert (entry.action, entry.subject, entry.note) == ("forceFinishBuild", "acme/web/1", "failed: it hangs, box")


def test_a_vm_that_stays_keeps_its_lease_and_is_noted(storage: Storage, clock: ManualClock):
    pipeline = new_pipeline(storage)
    build = storage.builds.create(pipeline, NewBuild("main", "c0ffee"), [new_job()])
    lease = started(storage, storage.jobs.of_build(build.id)[0])
    door = door_to(Stubborn(lease.uuid), storage, clock)
    killed = door.perform(leases.kill_vm, {"id": lease.uuid}, leases.KillVmRequest("sandbox"))
    assert killed.error == f"{lease.uuid}: its disk is busy"
    assert [each.uuid for each in storage.leases.live()] == [lease.uuid]
    (entry,) = storage.audit.page(10, None).rows
    assert (entry.action, entry.subject, entry.organization) == ("killVm", lease.uuid, "acme")
    assert entry.note == "acme/web/1 step, box"


def test_what_is_interrupted_is_noted(storage: Storage, clock: ManualClock):
    with pytest.raises(KeyboardInterrupt):
        door_to(Stubborn(), storage, clock).perform(leases.kill_vm, {"id": "vm"}, leases.KillVmRequest("sandbox"))
    (entry,) = storage.audit.page(10, None).rows
    assert (entry.action, entry.subject, entry.note) == ("killVm", "vm", "interrupted, box")


def test_http_leads_to_none_of_them():
    unused: Any = None
    with pytest.raises(TypeError, match="createUserToken is the owner's alone"):
        HttpDoor(unused, unused, unused, unused).resource(api_tokens.create_user_token)


def test_their_body_needs_no_check_and_they_are_noted(storage: Storage, door: LocalDoor):
    email = new_owner(storage).user.email
    body = api_tokens.UserTokenCreateRequest(TokenKind.SESSION, "browser")
    made = door.perform(api_tokens.create_user_token, {"email": email}, body)
    caller = storage.tokens.caller(made.token)
    assert caller is not None
    assert (caller.user.email, caller.kind) == (email, TokenKind.SESSION)
    (entry,) = storage.audit.page(10, None).rows
    assert (entry.actor, entry.action, entry.subject, entry.note) == (
        "root",
        "createUserToken",
        f"{email}/{made.uuid}",
        "box",
    )
    assert made.token not in str(entry)


def test_what_is_refused_is_not_noted(storage: Storage, door: LocalDoor):
    with pytest.raises(UserUnknown, match="there is no user eve@"):
        door.perform(api_tokens.list_user_tokens, {"email": "eve@example.org"})
    with pytest.raises(ApiError, match="there is no token 7, or it is revoked"):
        door.perform(api_tokens.revoke_user_token, {"id": "7"})
    assert storage.audit.page(10, None).rows == ()


def test_what_is_about_the_caller_needs_one(door: LocalDoor):
    with pytest.raises(ApiError, match="about the caller's own account") as refused:
        door.perform(api_tokens.revoke_api_token, {"id": "7"})
    assert refused.value.code == "unauthorized"
