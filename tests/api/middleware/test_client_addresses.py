from __future__ import annotations

import falcon
import pytest
from falcon import testing

from api.middleware.client_addresses import ClientAddresses


def _request(peer: str, forwarded: str | None) -> falcon.Request:
    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    return falcon.Request(testing.create_environ(remote_addr=peer, headers=headers))


@pytest.mark.parametrize(
    ("peer", "forwarded", "caller"),
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("192.0.2.1", "198.51.100.1", "192.0.2.1"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "10.0.0.3,10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "198.51.100.1, nonsense", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("10.0.0.1", "[2001:db8:0:1::7]:4711", "2001:db8:0:1::/64"),
        ("2001:db8:0:1::7", None, "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::9", None, "2001:db8:0:1::/64"),
        ("::ffff:10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1"),
        ("fd00::1", "198.51.100.1", "198.51.100.1"),
    ],
)
def test_a_proxy_is_believed_where_it_is_trusted(peer: str, forwarded: str | None, caller: str):
    assert ClientAddresses(("10.0.0.0/30", "fd00::1")).network(_request(peer, forwarded)) == caller


def test_no_proxy_is_trusted_by_default():
    assert ClientAddresses(()).network(_request("127.0.0.1", "198.51.100.1")) == "127.0.0.1"
