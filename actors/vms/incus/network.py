"""The network of VMs on the engine's bridge: an address for each, and the rules of a sandbox."""

from __future__ import annotations

import random
from functools import lru_cache
from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Any

from actors.vms.host.network import CLOSED_NETWORKS, ruleset
from actors.vms.incus.engine import part
from actors.vms.incus.refusals import EngineError
from storage import immutable

if TYPE_CHECKING:
    from actors.vms.incus.engine import Engine


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
