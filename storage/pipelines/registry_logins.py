"""Logins of organizations at registries of images, stored sealed (engine.md, "Images")."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.database.statements import Columns, Query, SqlValue, Write, first, insert_into, slot, written
from storage.errors import RegistryLoginInvalid, RegistryLoginMissing, SealBroken
from storage.models.builds import BuildRow
from storage.models.pipelines import RegistryLoginRow
from storage.patterns import pattern
from storage.records.pipelines import MAX_REGISTRY_PASSWORD_BYTES, RegistryAccount, RegistryLogin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.database.connection import Database
    from storage.records.builds import Build
    from storage.vault import Vault

_LOGIN = Columns.of(RegistryLogin, RegistryLoginRow)
_HOST = pattern(r"(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+|[a-z0-9.-]+(?=:)|\[[0-9a-f:]+\])(:[0-9]{1,5})?")
_HUB = {"index.docker.io": "docker.io", "registry-1.docker.io": "docker.io"}
_MOST = 50


class RegistryLogins:
    """The logins of organizations at registries, whose passwords go to pulls and jobs alone.

    Safe in any thread.

    Each has a UUID, which is part of the names of the images that were pulled with it: it stays when the password
    changes, and is another one for another username.
    """

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        of_organization = RegistryLoginRow.organization == slot("organization_id")
        this = of_organization & (RegistryLoginRow.host == slot("host"))
        logins = RegistryLoginRow.select(*_LOGIN.selected)
        self._list = Query(database, lambda: logins.where(of_organization).order_by(RegistryLoginRow.host), _LOGIN)
        self._get = Query(database, lambda: logins.where(this), _LOGIN)
        self._count = Query(
            database,
            lambda: RegistryLoginRow.select(peewee.fn.COUNT(RegistryLoginRow.id)).where(of_organization),
            first,
        )
        sealed = (
            RegistryLoginRow.organization,
            RegistryLoginRow.host,
            RegistryLoginRow.username,
            RegistryLoginRow.password,
        )
        self._of_uuid = Query(
            database, lambda: RegistryLoginRow.select(*sealed).where(RegistryLoginRow.uuid == slot("uuid")), tuple
        )
        self._of_host = Query(database, lambda: RegistryLoginRow.select(*sealed).where(this), tuple)
        self._all = Query(database, lambda: RegistryLoginRow.select(*sealed), tuple)
        trusted = BuildRow.select(BuildRow.id).where(
            BuildRow.id == slot("build_id"), BuildRow.untrusted_origin.is_null()
        )
        names = RegistryLoginRow.select(RegistryLoginRow.host, RegistryLoginRow.uuid)
        self._usable = Query(
            database, lambda: names.where(of_organization, peewee.fn.EXISTS(trusted)), lambda row: (row[0], row[1])
        )
        self._at = Query(
            database,
            lambda: RegistryLoginRow.select(RegistryLoginRow.organization, RegistryLoginRow.uuid).where(
                RegistryLoginRow.host == slot("host")
            ),
            lambda row: (int(row[0]), str(row[1])),
        )
        self._insert = Write(database, lambda: insert_into(RegistryLoginRow))
        self._update = Write(
            database,
            lambda: RegistryLoginRow.update(
                {RegistryLoginRow.password: slot("password"), RegistryLoginRow.updated_at: slot("now")}
            ).where(this, RegistryLoginRow.username == slot("username")),
        )
        self._delete = Write(database, lambda: RegistryLoginRow.delete().where(this))

    def of_organization(self, organization_id: int) -> list[RegistryLogin]:
        """Return an organization's logins, by host."""
        return self._list.all(organization_id=organization_id)

    def put(self, organization_id: int, host: str, username: str, password: str) -> RegistryLogin:
        """Set the login at a registry, by its host and perhaps port. Raises RegistryLoginInvalid."""
        host = checked_host(host)
        _check(username, password)
        this: dict[str, SqlValue] = {"organization_id": organization_id, "host": host}
        sealed = self._vault.seal(password.encode(), _seal_context(organization_id, host))
        with self._database.write():
            now = self._database.now()
            if not self._update.run(**this, username=username, password=sealed, now=now):
                self._delete.run(**this)
                if (self._count.one(organization_id=organization_id) or 0) >= _MOST:
                    raise RegistryLoginInvalid(f"host: an organization has at most {_MOST} logins: remove one first")
                times = {"created_at": now, "updated_at": now}
                self._insert.insert(uuid=str(uuid4()), **this, username=username, password=sealed, **times)
            return written(self._get.one(**this))

    def remove(self, organization_id: int, host: str) -> bool:
        """Delete a login; False if there is none. What was pulled with it is found by nobody any more."""
        with self._database.write():
            return self._delete.run(organization_id=organization_id, host=_HUB.get(host, host)) == 1

    def usable(self, organization_id: int, build_id: int) -> dict[str, str]:
        """Return the UUIDs of logins that pulls for a build may use, by registry; none for an untrusted one."""
        return dict(self._usable.all(organization_id=organization_id, build_id=build_id))

    def at(self, host: str) -> list[tuple[int, str]]:
        """Return the organizations that have a login at a registry, with the UUIDs of the logins."""
        return self._at.all(host=host)

    def opened(self, uuid: str) -> RegistryAccount | None:
        """Return a login with its password; None if it was removed. Raises SealBroken."""
        found = self._of_uuid.one(uuid=uuid)
        return None if found is None else self._account(*found)

    def for_build(self, build: Build, hosts: Iterable[str]) -> list[RegistryAccount]:
        """Return the logins that a job of a build gets; none if that is untrusted.

        Raises RegistryLoginMissing if the organization lacks one of them, and SealBroken.
        """
        found = []
        for host in () if build.untrusted else hosts:
            row = self._of_host.one(organization_id=build.organization_id, host=_HUB.get(host, host))
            if row is None:
                raise RegistryLoginMissing(
                    f"the organization {build.organization_slug} has no login at the registry {host}: have an admin run"
                    f" `ci-daemon registry login {build.organization_slug} {host}`, or take it out of `registries`"
                )
            found.append(self._account(*row))
        return found

    def open_all(self) -> int:
        """Decrypt every password, to check the key; return their number. Raises SealBroken."""
        found = self._all.all()
        for row in found:
            self._account(*row)
        return len(found)

    def _account(self, organization_id: int, host: str, username: str, sealed: bytes) -> RegistryAccount:
        try:
            password = self._vault.open(bytes(sealed), _seal_context(organization_id, host))
        except SealBroken as error:
            raise SealBroken(
                f"the login at {host} cannot be decrypted with secret.key: it was sealed with another key"
            ) from error
        return RegistryAccount(host, username, password.decode())


def checked_host(host: str) -> str:
    """Return the host of a registry as images name it. Raises RegistryLoginInvalid."""
    if len(host) > 255 or not _HOST.fullmatch(host):  # noqa: PLR2004 - the most of a name
        raise RegistryLoginInvalid("host: expected the host of a registry and perhaps its port, such as ghcr.io")
    return _HUB.get(host, host)


def _check(username: str, password: str) -> None:
    if not username or len(username) > 255 or ":" in username or not username.isprintable():  # noqa: PLR2004 - as above
        raise RegistryLoginInvalid("username: expected 1 to 255 characters, and no colon")
    size = len(password.encode("utf-8", "replace"))
    if not 1 <= size <= MAX_REGISTRY_PASSWORD_BYTES or not password.isprintable():
        raise RegistryLoginInvalid(f"password: expected 1 to {MAX_REGISTRY_PASSWORD_BYTES} bytes in one line")


def _seal_context(organization_id: int, host: str) -> bytes:
    return f"registry login {organization_id} {host}".encode()
