"""Addresses that may be fetched from, and those of submodules."""

from __future__ import annotations

import pytest

from actors.repositories.fetching.remote import Remote, RemoteInvalid


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://git.example.org/acme/web.git", "https://git.example.org"),
        ("https://Git.Example.org:8443/acme/web.git", "https://git.example.org:8443"),
        ("https://[::1]:8443/web", "https://[::1]:8443"),
        ("ssh://git@host/x.git", "ssh://host:22"),
        ("ssh://git@host:2222/~me/x.git", "ssh://host:2222"),
        ("git@host:x.git", "ssh://host:22"),
        ("host:/srv/x.git", "ssh://host:22"),
        ("/srv/x.git", "file://"),
    ],
)
def test_the_address_of_a_server_or_path_is_one(url: str, origin: str):
    assert Remote.parse(url).origin == origin


@pytest.mark.parametrize(
    "url",
    [
        "", "x.git", "./x.git", "-x", "http://host/x", "git://host/x", "file:///etc", "ext::sh -c x", "ext::sh:x",
        "fd::17/x", "https://user@host/x", "https://user:pw@host/x", "https://host/x?token=1", "https://host/x#y",
        "https://-host/x", "https://host:0/x", "https://host:99999/x", "https://host/a b", "https://host/x\n",
        "https://host", "ssh://-oProxyCommand=x/y", "ssh://-u@host/y", "ssh://git:pw@host/x", "-oProxyCommand=x:y",
        "-u@host:x", "git@host:-x", "git@-host:x", "git@host:", "a/b:c", "https://" + "x" * 1000 + "/y",
        "transport::https://host/x", "https://host\\@evil/x",
    ],
)  # fmt: skip
def test_other_addresses_are_refused(url: str):
    with pytest.raises(RemoteInvalid):
        Remote.parse(url)


@pytest.mark.parametrize(
    ("url", "submodule", "resolved"),
    [
        ("https://host/acme/web.git", "../lib.git", "https://host/acme/lib.git"),
        ("https://host/acme/web.git", "../../other/lib", "https://host/other/lib"),
        ("https://host/acme/web.git", "./sub", "https://host/acme/web.git/sub"),
        ("ssh://git@host:22/acme/web.git", "../lib.git", "ssh://git@host:22/acme/lib.git"),
        ("git@host:acme/web.git", "../lib.git", "git@host:acme/lib.git"),
        ("git@host:/acme/web.git", "../lib.git", "git@host:/acme/lib.git"),
        ("/srv/web.git", "https://host/lib.git", "https://host/lib.git"),
        ("https://host:8443/acme/web.git", "git@Host:acme/lib.git", "https://host:8443/acme/lib.git"),
        ("https://host/acme/web.git", "ssh://git@host:22/acme/lib", "https://host/acme/lib"),
        ("https://host/acme/web.git", "git@other:acme/lib.git", "git@other:acme/lib.git"),
    ],
)
def test_a_relative_submodule_is_beside_its_repository(url: str, submodule: str, resolved: str):
    assert Remote.parse(url).resolve(submodule).url == resolved


@pytest.mark.parametrize(
    ("url", "submodule"),
    [
        ("https://host/acme/web.git", "../../../lib.git"),
        ("https://host/acme/web.git", "../../../../../etc"),
        ("git@host:acme/web.git", "../../../lib.git"),
        ("https://host/acme/web.git", "/etc"),
        ("https://host/acme/web.git", "file:///etc"),
        ("https://host/acme/web.git", "ext::sh -c x"),
        ("https://host/acme/web.git", "-u./x"),
        ("https://host/acme/web.git", "../lib?token=1"),
        ("/srv/web.git", "../lib.git"),
        ("/srv/web.git", "/srv/lib.git"),
    ],
)
def test_a_submodule_elsewhere_is_refused(url: str, submodule: str):
    with pytest.raises(RemoteInvalid):
        Remote.parse(url).resolve(submodule)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://host/acme/web", "https://host/acme/web.git/info/lfs"),
        ("https://host/acme/web.git/", "https://host/acme/web.git/info/lfs"),
        ("git@host:acme/web.git", "git@host:acme/web.git"),
        ("/srv/100%/web.git", "file:///srv/100%25/web.git"),
    ],
)
def test_files_of_lfs_are_beside_their_repository(url: str, server: str):
    assert Remote.parse(url).lfs_url == server
