"""Addresses of VMs on the engine's bridge."""

from __future__ import annotations

from ipaddress import IPv4Interface, ip_address

from actors.vms.incus.outer_layers import Bridge


def test_addresses_are_neither_the_gateway_nor_the_networks_own():
    bridge = Bridge("ci", IPv4Interface("10.9.8.1/29"), ())
    assert {bridge.address() for _ in range(200)} == {f"10.9.8.{last}" for last in range(2, 7)}


def test_an_address_comes_with_the_way_out_and_the_rules():
    settings = Bridge("ci", IPv4Interface("10.9.0.1/16"), ()).settings("10.9.3.4")
    assert (settings["address"], settings["netmask"], settings["gateway"]) == ("10.9.3.4", "255.255.0.0", "10.9.0.1")
    assert ip_address("10.9.0.1").packed in settings["rules"]
