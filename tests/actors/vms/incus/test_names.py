"""Names on the engine: the service's own, and nobody else's."""

from __future__ import annotations

import pytest

from actors.vms import VmError
from actors.vms.incus.volumes import OWNER, Names

NAMES = Names("ci")


def test_only_names_with_the_prefix_and_kind_are_of_a_kind():
    there = ["ci-vm-one", "ci-disk-one", "ci-vm-two-2", "other-vm-one", "vm-one", "ci-vmx"]
    assert list(NAMES.of_kind("vm", there)) == ["one", "two-2"]


def test_what_lacks_the_label_of_the_service_is_not_its_own():
    assert NAMES.own({OWNER: "ci"})
    assert not NAMES.own({OWNER: "ci2"})
    assert not NAMES.own({})


@pytest.mark.parametrize("name", ["a.b", "a_b", "a" * 49, "a-"])
def test_an_instance_cannot_have_every_name_of_a_file(name: str):
    with pytest.raises(VmError, match="not a valid name of an instance"):
        NAMES.vm(name)


def test_the_longest_id_makes_a_host_name():
    assert len(Names("c" * 11).vm("a" * 48)) <= 63
