"""Addresses that webhooks may go to."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from actors.vms.public_addresses import is_public, is_within


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_on_the_internet_are_public(address: str):
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.0.1",
        "192.0.2.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::1",
        "fc00::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ],
)
def test_addresses_of_a_network_of_its_own_are_not(address: str):
    assert not is_public(ip_address(address))


def test_an_owner_may_allow_networks():
    networks = [ip_network("10.1.0.0/16"), ip_network("fd00::/8")]
    assert is_within(ip_address("10.1.9.9"), networks)
    assert is_within(ip_address("::ffff:10.1.9.9"), networks)
    assert is_within(ip_address("fd00::1"), networks)
    assert not is_within(ip_address("10.2.0.1"), networks)
