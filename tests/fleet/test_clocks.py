"""Members whose clocks differ from the service's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from actors.vms import VmSpec
from actors.vms.images import ImageStore
from ci_daemon.config import load
from ci_daemon.doctor.providers import members
from ci_daemon.engine import contents_of
from storage import Shape
from tests.fleet.engine import INCUS
from tests.fleet.fleet import Fleet
from tests.fleet.prepared_cluster import configure, prepare, provider_of, says
from tests.fleet.skewed_member import SkewedMember

_YEARS = timedelta(days=3650)
_HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def alone() -> Iterator[Fleet]:
    with Fleet(INCUS) as fleet:
        yield fleet


@pytest.mark.parametrize("ahead", [-_YEARS, -_HOUR, _HOUR, _YEARS], ids=["years behind", "behind", "ahead", "years"])
def test_vms_are_made_whatever_a_members_clock_says(
    ahead: timedelta, alone: Fleet, tmp_path: Path, image_store: ImageStore
) -> None:
    """No time of the engine is compared with the service's own; `doctor` says that they differ."""
    state = tmp_path / "state"
    with alone.switch.entered():
        prepare(alone, state)
    folder = tmp_path / "member"
    folder.mkdir()
    with SkewedMember(alone.members[0].socket, folder, ahead) as member:
        shown = str(member.certificate.file)
        configure(state, {"addresses": [member.url], "server_certificate": shown})
        with provider_of(state, image_store) as provider:
            provider.create(spec("vm-1"))
            assert says(provider, "vm-1", "echo kept >/workspace/mark; echo made") == "made"
            provider.snapshot("vm-1", "disk")
            provider.destroy("vm-1")
            provider.create(spec("vm-2", "disk"))
            assert says(provider, "vm-2", "cat /workspace/mark") == "kept"
            assert provider.alive("vm-2")
            provider.remove_image_copies()
            provider.destroy("vm-2")
            provider.remove_snapshot("disk")
            assert (list(provider.list()), list(provider.snapshots())) == ([], [])
        config = load(state, {})
        assert [each.snapshots for each in contents_of(state, config)] == [0]
        said = " ".join(check.detail for check in members(state, config) if not check.ok)
        assert "its clock is" in said
        assert ("behind" in said, "before" in said) == (ahead < timedelta(), ahead > timedelta())
    assert member.shifted


def spec(vm_id: str, snapshot: str | None = None) -> VmSpec:
    return VmSpec(vm_id, "debian:12", snapshot, Shape(memory_gb=1), network=False)
