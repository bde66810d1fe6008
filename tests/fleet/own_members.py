"""Members of one's own, on which machines run: those that tests start have no KVM."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from actors.vms.incus import Access, Engine, EngineSetup, NotFound, fingerprint_of, new_certificate
from storage import SystemClock
from tests.fleet.fleet import POOL
from tests.fleet.prepared import CERTIFICATES, PreparedFleet, administered, write_settings

_NAME = "ci-contract"
"""The project, the network and its ACL, none of which the engine may have already."""

_MACHINE_SECONDS = 1200.0


class OwnMembers(PreparedFleet):
    """A project for machines on Incus at the address `CONTRACT_MEMBERS`.

    The folder `CONTRACT_CERTIFICATES` has the files client.crt and client.key of one of the engine's administrators,
    and server.crt, the engine's own. Its storage pool is `CONTRACT_POOL`.
    """

    @classmethod
    @contextmanager
    def made(cls, folder: Path) -> Iterator[Self]:
        """Prepare the project for a certificate that is made in ``folder``; all of it is gone at the end."""
        files = {name: str(folder / file) for name, file in CERTIFICATES.items()}
        certificate, key = new_certificate(SystemClock().now())
        access = _administrator()
        contents = (certificate, key, access.server_certificate.read_text(encoding="ascii"))
        for file, content in zip(files.values(), contents, strict=True):
            Path(file).write_text(content, encoding="ascii")
        settings = {
            "addresses": list(access.addresses),
            "storage": os.environ.get("CONTRACT_POOL", POOL),
            "instances": "virtual-machine",
            "create_seconds": _MACHINE_SECONDS,
            **dict.fromkeys(("project", "network"), _NAME),
        }
        write_settings(folder, {**settings, **files})
        members, trusted = cls(folder), ssl.PEM_cert_to_DER_cert(certificate)
        with administered(access) as engine:
            assert not engine.exists(f"/1.0/projects/{_NAME}"), f"the engine has a project {_NAME}: remove it"
            try:
                list(EngineSetup(engine, members.config.incus, ()).steps(trusted))
                yield members
            finally:
                _remove(engine, trusted)

    def administrator(self) -> Access:
        """Return the way of an administrator to the engine."""
        return _administrator()


def _administrator() -> Access:
    folder = Path(os.environ["CONTRACT_CERTIFICATES"])
    files = (folder / file for file in CERTIFICATES.values())
    return Access((os.environ["CONTRACT_MEMBERS"],), Path("/nowhere"), *files)


def _remove(engine: Engine, certificate: bytes) -> None:
    paths = (
        f"/1.0/projects/{_NAME}",
        f"/1.0/networks/{_NAME}",
        f"/1.0/network-acls/{_NAME}",
        f"/1.0/certificates/{fingerprint_of(certificate)}",
    )
    for path in paths:
        with suppress(NotFound):
            engine.do("DELETE", path, None, {"force": 1})  # a project goes with all that is in it
