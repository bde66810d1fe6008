"""The outer layers of VMs: instances at an address of their own, grown to a job's shape.

A container is made small. The network is the engine's bridge, with the rules of a sandbox.
"""

from __future__ import annotations

import random
import time
from functools import lru_cache
from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Any

from actors.vms.host.network import CLOSED_NETWORKS, ruleset
from actors.vms.incus.engine import part
from actors.vms.incus.instances import DISK_DEVICE
from actors.vms.incus.refusals import EngineError, StartFailed
from actors.vms.launcher.words import SERVICE_DISK
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.vms.incus.engine import Engine
    from actors.vms.incus.instances import InstanceKind, Instances
    from actors.vms.incus.outer_images import OuterImages
    from storage import Shape


_PAUSE_SECONDS = 0.1
_ADDRESSES = 8
_TAKEN = "already"


class OuterLayers:
    """The outer layers of VMs, each an instance."""

    def __init__(self, instances: Instances, image: OuterImages, kind: InstanceKind) -> None:
        self._instances = instances
        self._image = image
        self._kind = kind

    @property
    def share(self) -> str | None:
        """The beginning of the names by which an instance mounts its disks itself; None if it does not."""
        return self._kind.share

    def image(self) -> str:
        """Return the image of new instances, which may first have to be published. Raises VmError."""
        self._instances.check(self._kind)
        return self._image.alias()

    def make(self, instance: str, image: str, bridge: Bridge, member: str | None, shape: Shape | None) -> str:
        """Make an instance at a random address, without a job's disk; return the address.

        A container may be made without a shape, to wait for a job. Raises VmError.
        """
        limits = self._kind.limits(shape)
        for left in reversed(range(_ADDRESSES)):
            address = bridge.address()
            try:
                self._instances.make(instance, image, limits, {"eth0": bridge.device(address)}, member, self._kind)
            except EngineError as error:
                self._instances.remove(instance)
                self._check_name(instance, error)
                if not left or not _is_of_address(error):
                    raise
            else:
                return address
        raise AssertionError

    def grow(self, instance: str, shape: Shape, disk: Mapping[str, str], services: Iterable[Mapping[str, str]]) -> None:
        """Give an instance a job's shape, and the devices that are its disk and those of its services."""
        disks = {DISK_DEVICE: disk} | {f"{SERVICE_DISK}{number}": each for number, each in enumerate(services)}
        devices = {name: {**each, **self._kind.disk} for name, each in disks.items()}
        self._instances.change(instance, self._kind.limits(shape), devices)

    def await_programs(self, instance: str, seconds: float) -> None:
        """Wait until programs can be run in an instance: in a container at once. Raises VmError.

        Each pause is three times as long as the look before it, which takes the member's time from what boots there.
        """
        end = time.monotonic() + seconds
        looked = time.monotonic()
        while self._kind.is_machine and not self._instances.runs_programs(instance):
            now = time.monotonic()
            if now > end:
                message = f"the machine {instance} did not start the engine's agent within {seconds:.0f} s"
                raise VmError(message)
            time.sleep(max(_PAUSE_SECONDS, 3 * (now - looked)))
            looked = time.monotonic()

    def _check_name(self, instance: str, cause: EngineError) -> None:
        """Raise VmError if somebody else has an instance of this name."""
        if self._instances.find(instance) is not None:
            message = (
                f"the project has an instance {instance} that is not this service's: rename it, or set incus.prefix"
            )
            raise VmError(message) from cause


def _is_of_address(error: EngineError) -> bool:
    """Tell whether an instance was refused because another one has its address."""
    if isinstance(error, StartFailed):
        return False
    text = str(error).lower()
    return "address" in text and _TAKEN in text


@immutable
class Bridge:
    """A managed bridge, the gateway at which its resolver answers, and what VMs may reach besides."""

    name: str
    gateway: IPv4Interface
    allow: tuple[IPv4Network, ...]

    @classmethod
    def of(cls, engine: Engine, name: str, allow: tuple[str, ...], member: str | None) -> Bridge:
        """Look a bridge up, by its state: the engine hides its configuration from all but administrators.

        It is the same on all members, but is down on one that is evacuated, so the VM's ``member`` is asked.
        Raises EngineError if it has no IPv4 network, or an allowed network is not in CIDR form.
        """
        state = engine.get(f"/1.0/networks/{part(name)}/state", {} if member is None else {"target": member})
        own = [each for each in state["addresses"] or () if (each["family"], each["scope"]) == ("inet", "global")]
        if not own:
            message = f"the network {name!r} of the engine has no IPv4 address: see docs/fleet.md"
            raise EngineError(message)
        try:
            gateway = IPv4Interface(f"{own[0]['address']}/{own[0]['netmask']}")
            return cls(name, gateway, tuple(IPv4Network(each) for each in allow))
        except ValueError as error:
            message = f"sandbox.network.allow cannot be used: {error}"
            raise EngineError(message) from error

    @property
    def resolver(self) -> str:
        """The address of the resolver."""
        return str(self.gateway.ip)

    def address(self) -> str:
        """Return a random address for an instance; the engine refuses one that is taken."""
        network = self.gateway.network
        return str(network[random.randrange(2, network.num_addresses - 1)])  # noqa: S311 - not for secrecy

    def device(self, address: str) -> dict[str, str]:
        """Return the interface of an instance with an address."""
        return {"type": "nic", "network": self.name, "name": "eth0", "ipv4.address": address}

    def settings(self, address: str) -> dict[str, Any]:
        """Return what an instance's init needs to configure the interface."""
        return {
            "address": address,
            "netmask": str(self.gateway.network.netmask),
            "gateway": self.resolver,
            "rules": _rules(self.resolver, self.allow),
        }


@lru_cache(maxsize=4)
def _rules(resolver: str, allow: tuple[IPv4Network, ...]) -> bytes:
    return ruleset(resolver, allow, CLOSED_NETWORKS, dns_over_tcp=True)
