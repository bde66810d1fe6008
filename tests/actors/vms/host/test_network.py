"""The rules as the kernel reads them: well-formed messages, for any networks."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from actors.vms.host.network import ruleset

NESTED = 0x8000
NETWORKS = st.lists(
    st.builds(
        lambda address, prefix: IPv4Network((address, prefix), strict=False),
        st.integers(0, 2**32 - 1),
        st.integers(0, 32),
    ),
    max_size=5,
)


def messages(batch: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, flags and payload of each message of a batch."""
    while batch:
        length, kind, flags = struct.unpack_from("=IHH", batch)
        assert length % 4 == 0
        yield kind, flags, batch[20:length]
        batch = batch[length:]


def values(attributes: bytes) -> Iterator[bytes]:
    """Yield the contents of all attributes, at any depth."""
    while attributes:
        length, kind = struct.unpack_from("=HH", attributes)
        assert 4 <= length <= len(attributes)
        content = attributes[4:length]
        if kind & NESTED:
            yield from values(content)
        else:
            yield content
        attributes = attributes[(length + 3) & ~3 :]


@given(NETWORKS, NETWORKS)
def test_every_network_is_in_a_well_formed_batch(allow: list[IPv4Network], closed: list[IPv4Network]) -> None:
    batch = list(messages(ruleset("10.0.2.3", allow, closed, dns_over_tcp=True)))
    assert [batch[0][0], batch[-1][0]] == [0x10, 0x11]
    assert [flags & 4 for _, flags, _ in batch] == [0] * (len(batch) - 2) + [4, 0]
    contents = [list(values(payload)) for _, _, payload in batch[1:-1]]
    for network in [*allow, *closed]:
        rules = [rule for rule in contents if network.network_address.packed in rule and network.netmask.packed in rule]
        assert rules


def test_allowed_networks_come_before_closed_ones() -> None:
    allow, closed = IPv4Network("10.1.0.0/16"), IPv4Network("10.0.0.0/8")
    batch = ruleset("10.0.2.3", [allow], [closed], dns_over_tcp=False)
    assert batch.index(allow.network_address.packed) < batch.rindex(closed.network_address.packed)


def test_dns_over_tcp_is_a_rule_of_its_own() -> None:
    with_tcp, without = (len(list(messages(ruleset("10.0.2.3", [], [], dns_over_tcp=tcp)))) for tcp in (True, False))
    assert with_tcp == without + 1
