"""An engine of the provider `incus`, from this host: its set-up, its contents and its images."""

from __future__ import annotations

import ssl
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

from cryptography.x509 import load_pem_x509_certificate

from actors.vms.incus import (
    Engine,
    EngineAliases,
    EngineAway,
    EngineError,
    EngineSetup,
    JoinToken,
    NotFound,
    NotTrusted,
    access_of,
    contents,
    fingerprint_of,
    member_urls,
    new_certificate,
    server_certificate,
)
from ci_daemon.host.private_file import write_private
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from actors.vms.incus import Access, MemberContents, SetupStep
    from ci_daemon.config import Config


_FOLDER = "incus"
"""The folder of the state directory that has the provider's certificates, and its VMs' keys."""

_DEFAULT_PROJECT = "default"
_LEAST_VALID = timedelta(days=30)


@immutable
class PreparedEngine:
    """The steps of a set-up, and the addresses of the engine's members, if it listens on the network."""

    steps: tuple[SetupStep, ...]
    addresses: tuple[str, ...]


def prepare_engine(state_dir: Path, config: Config, token: str | None, now: datetime) -> PreparedEngine:
    """Prepare an engine: that of a join ``token``, else the one whose socket is on this host.

    Nothing is made in ``state_dir`` unless the engine answers. Raises VmError.
    """
    access = access_of(state_dir / _FOLDER, config.incus)
    if token is None:
        with closing(Engine(replace(access, addresses=()), _DEFAULT_PROJECT)) as engine:
            try:
                shown = engine.get("/1.0")["environment"].get("certificate")
            except EngineAway as error:
                message = f"{error} If it is on another host, give a --token"
                raise EngineAway(message) from error
            prepared = _prepare(engine, config, _certificate(access, now))
        if shown:
            write_private(access.server_certificate, shown)
        return prepared
    joined = JoinToken.parse(token)
    shown, certificate = server_certificate(joined), _certificate(access, now)
    write_private(access.server_certificate, shown)
    with _administrator(replace(access, addresses=joined.addresses), joined, now) as engine:
        return _prepare(engine, config, certificate)


def contents_of(state_dir: Path, config: Config) -> list[MemberContents]:
    """Return the members of the configured engine, with what the service has on each. Raises VmError."""
    folder = state_dir / _FOLDER
    with closing(Engine(access_of(folder, config.incus), config.incus.project)) as engine:
        try:
            return contents(engine, config.incus, folder)
        except NotFound as error:
            message = f"the engine is not prepared: run `ci-daemon incus setup` ({error})"
            raise EngineError(message) from error


def _prepare(engine: Engine, config: Config, certificate: bytes) -> PreparedEngine:
    steps = tuple(EngineSetup(engine, config.incus, config.sandbox.network.allow).steps(certificate))
    return PreparedEngine(steps, member_urls(engine))


@contextmanager
def _administrator(access: Access, token: JoinToken, now: datetime) -> Iterator[Engine]:
    """Administer the engine of a token by a certificate that it trusts until the end of the block.

    The service's own certificate cannot: after the first set-up it is good in one project alone.
    """
    certificate, key = new_certificate(now)
    with TemporaryDirectory() as folder:
        files = replace(access, certificate=Path(folder, "client.crt"), key=Path(folder, "client.key"))
        write_private(files.certificate, certificate)
        write_private(files.key, key)
        with closing(Engine(files, _DEFAULT_PROJECT)) as engine:
            # Incus and LXD name a token differently.
            body = {"type": "client", "name": "ci-daemon", "trust_token": token.text, "password": token.text}
            try:
                engine.do("POST", "/1.0/certificates", body)
            except NotTrusted as error:
                message = "the engine does not take the token, which is good once: make another one"
                raise EngineError(message) from error
            try:
                yield engine
            finally:
                fingerprint = fingerprint_of(ssl.PEM_cert_to_DER_cert(certificate))
                engine.do("DELETE", f"/1.0/certificates/{fingerprint}")


def _certificate(access: Access, now: datetime) -> bytes:
    """Return the service's certificate in DER form; make one if it is missing, not valid or ends soon."""
    if not (access.certificate.exists() and access.key.exists() and _is_timely(access.certificate, now)):
        access.certificate.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        certificate, key = new_certificate(now)
        write_private(access.key, key)
        write_private(access.certificate, certificate)
    return ssl.PEM_cert_to_DER_cert(access.certificate.read_text(encoding="ascii"))


def _is_timely(certificate: Path, now: datetime) -> bool:
    """Tell whether a certificate is valid and does not end soon."""
    found = load_pem_x509_certificate(certificate.read_bytes())
    return found.not_valid_before_utc <= now and now + _LEAST_VALID <= found.not_valid_after_utc


@contextmanager
def engine_image(state_dir: Path, config: Config, alias: str) -> Iterator[IO[bytes]]:
    """Give a tar of the image that has an alias in the project of the configured engine.

    Raises ImageNotFound and VmError.
    """
    access = access_of(state_dir / _FOLDER, config.incus)
    with closing(Engine(access, config.incus.project)) as engine, EngineAliases(engine, config.incus).tar(alias) as tar:
        yield tar
