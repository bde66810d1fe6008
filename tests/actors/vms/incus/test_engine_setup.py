"""The parts of an engine's set-up that need no engine."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from actors.vms.host.network import CLOSED_NETWORKS
from actors.vms.incus import EngineError, JoinToken, new_certificate
from actors.vms.incus.engine_setup import closed_networks

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_allowed_network_is_a_hole_in_the_closed_ones():
    """An engine's ACL has no order in which a rule that allows could come first."""
    closed = closed_networks([IPv4Network("10.1.2.0/24")])
    inside, beside = IPv4Address("10.1.2.7"), IPv4Address("10.1.3.7")
    assert not any(inside in network for network in closed)
    assert any(beside in network for network in closed)
    assert sum(network.num_addresses for network in closed) == sum(each.num_addresses for each in CLOSED_NETWORKS) - 256


def test_all_is_open_if_all_is_allowed():
    assert closed_networks([IPv4Network("0.0.0.0/0")]) == []


def test_a_token_names_the_members_and_their_certificate():
    fields = {"client_name": "ci", "fingerprint": "ab12", "addresses": ["10.98.0.1:8443"], "secret": "s"}
    text = base64.b64encode(json.dumps(fields).encode()).decode()
    assert JoinToken.parse(text) == JoinToken(text, ("https://10.98.0.1:8443",), "ab12")


@pytest.mark.parametrize("text", ["", "no base64!", base64.b64encode(b"[]").decode(), base64.b64encode(b"{}").decode()])
def test_what_is_no_token_is_refused_with_the_way_to_one(text: str):
    with pytest.raises(EngineError, match="incus config trust add"):
        JoinToken.parse(text)


def test_a_new_certificate_fits_its_key_and_is_for_clients():
    certificate, key = new_certificate(NOW)
    made = x509.load_pem_x509_certificate(certificate.encode())
    private = serialization.load_pem_private_key(key.encode(), None)
    assert made.public_key() == private.public_key()
    assert made.not_valid_before_utc < NOW < made.not_valid_after_utc
