from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import KeyUnreadable, SealBroken, Vault


@pytest.fixture
def key(tmp_path: Path) -> Path:
    Vault.create(tmp_path / "secret.key")
    return tmp_path / "secret.key"


@given(st.binary(max_size=1000))
def test_what_is_sealed_opens_and_shows_nothing_of_itself(plain: bytes):
    vault = Vault(bytes(32))
    sealed = vault.seal(plain)
    assert vault.open(sealed) == plain
    assert sealed != vault.seal(plain)
    if len(plain) > 8:
        assert plain not in sealed


@given(st.integers(0, 100), st.integers(1, 255))
def test_any_changed_byte_breaks_the_seal(position: int, flip: int):
    vault = Vault(bytes(32))
    sealed = bytearray(vault.seal(b"secret"))
    sealed[position % len(sealed)] ^= flip
    with pytest.raises(SealBroken):
        vault.open(bytes(sealed))


@pytest.mark.parametrize("sealed", [b"", b"\x01", b"\x01" + bytes(11), b"\x01" + bytes(12)])
def test_bytes_too_short_to_be_sealed_are_refused(sealed: bytes):
    with pytest.raises(SealBroken):
        Vault(bytes(32)).open(sealed)


def test_another_key_does_not_open():
    with pytest.raises(SealBroken, match=r"sealed with another secret\.key"):
        Vault(b"1" * 32).open(Vault(b"2" * 32).seal(b"x"))


def test_the_key_file_is_its_owners_alone_and_loads_again(key: Path):
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert Vault.load(key).open(Vault.load(key).seal(b"x")) == b"x"


def test_a_key_file_is_never_overwritten(key: Path):
    before = key.read_bytes()
    with pytest.raises(FileExistsError):
        Vault.create(key)
    assert key.read_bytes() == before


def test_derived_keys_differ_by_purpose_and_stay_the_same(key: Path):
    vault = Vault.load(key)
    assert vault.derive(b"a") == Vault.load(key).derive(b"a")
    assert len({vault.derive(b"a"), vault.derive(b"b"), Vault(os.urandom(32)).derive(b"a")}) == 3
    assert len(vault.derive(b"a")) == 32


def test_a_missing_key_is_reported_as_such(tmp_path: Path):
    with pytest.raises(KeyUnreadable, match="No such file or directory; restore it from your backup"):
        Vault.load(tmp_path / "secret.key")


def test_a_key_that_is_there_and_not_to_be_read_is_for_its_owner(tmp_path: Path):
    (tmp_path / "secret.key").symlink_to("secret.key")
    with pytest.raises(KeyUnreadable, match="run this as its owner"):
        Vault.load(tmp_path / "secret.key")


def test_a_key_that_others_may_read_is_refused_with_the_fix(key: Path):
    key.chmod(0o640)
    with pytest.raises(KeyUnreadable, match="chmod 600"):
        Vault.load(key)


@pytest.mark.parametrize("content", [b"", b"no base64!", b"c2hvcnQ=\n"])
def test_a_damaged_key_is_refused(key: Path, content: bytes):
    key.write_bytes(content)
    with pytest.raises(KeyUnreadable, match="holds no key"):
        Vault.load(key)


def test_a_credential_of_the_service_comes_before_the_file(tmp_path: Path) -> None:
    credentials, path = tmp_path / "credentials", tmp_path / "state" / "secret.key"
    for folder in (credentials, path.parent):
        folder.mkdir()
    environ = {"CREDENTIALS_DIRECTORY": str(credentials)}
    beside = Vault.create(path)
    assert Vault.of_service(path, environ).derive(b"x") == beside.derive(b"x")
    credential = Vault.create(credentials / "secret.key")
    (credentials / "secret.key").chmod(0o440)
    path.unlink()
    assert Vault.of_service(path, environ).derive(b"x") == credential.derive(b"x")
    with pytest.raises(KeyUnreadable, match="restore it from your backup"):
        Vault.of_service(path, {})
