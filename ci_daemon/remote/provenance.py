"""The verification of an artifact by its provenance: who signed, and what was made of what.

Nothing that an envelope says is looked at before its signature is verified, and only keys that the caller trusts count,
never one that the envelope brings.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from httpx import create_ssl_context

from actors import Deadline, NoAnswer, TimedBackend, exchange, proxy_to
from api.operations import BUILD_TYPE, PAYLOAD_TYPE, PREDICATE_TYPE, STATEMENT_TYPE, signed_message
from ci_daemon.remote.destination import is_this_host
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

KEYS_PATH = "/.well-known/provenance-keys.json"
MAX_BYTES = 1 << 20
"""The most bytes of an envelope, and of keys."""

_SECONDS = 30.0
_BLOCK = 1 << 20
_LEAST_BITS = 2048
_MOST_BITS = 16384


class NotVerified(Exception):
    """An artifact is not what was expected, or nobody can tell; the message is a sentence."""


@immutable
class Expected:
    """The things that a caller expects of an artifact; None where anything will do.

    ``builder`` is the address of a service.
    """

    builder: str | None = None
    repository: str | None = None
    ref: str | None = None
    pipeline: str | None = None
    commit: str | None = None


@immutable
class Made:
    """The facts of how an artifact was made; None is what the service did not verify."""

    sha256: str
    builder: str
    pipeline: str
    job: str
    repository: str | None
    ref: str | None
    commit: str | None
    event: str
    fork: bool
    invocation: str


def keys_of(content: bytes) -> list[RSAPublicKey]:
    """Return the keys of a JWK set or of one public key in PEM. Raises NotVerified."""
    try:
        if b"-----BEGIN" in content:
            found = [load_pem_public_key(content)]
        else:
            found = [_key(each) for each in json.loads(content)["keys"]]
    except (ValueError, LookupError, TypeError, RecursionError, UnsupportedAlgorithm):
        raise NotVerified(
            f"the keys are neither a JWK set, as a service has at {KEYS_PATH}, nor a public key in PEM"
        ) from None
    keys = [each for each in found if isinstance(each, RSAPublicKey) and _LEAST_BITS <= each.key_size <= _MOST_BITS]
    if len(keys) < len(found) or not keys:
        raise NotVerified(f"provenance is signed by RSA keys of at least {_LEAST_BITS} bits, and these are others")
    return keys


def keys_at(issuer: str) -> bytes:
    """Return what a service says are its keys. Raises NotVerified."""
    if not issuer.startswith("https://") and not (issuer.startswith("http://") and is_this_host(issuer)):
        raise NotVerified("--issuer takes an address that begins with https://, so that nobody can answer in its place")
    url = issuer.rstrip("/") + KEYS_PATH
    try:
        answer = exchange(
            "GET",
            url,
            {},
            b"",
            backend=TimedBackend(Deadline(_SECONDS)),
            ssl_context=create_ssl_context,
            most_bytes=MAX_BYTES,
            proxy=proxy_to(url),
        )
    except NoAnswer as error:
        raise NotVerified(f"{issuer} {error}, so its keys are not known") from error
    if not answer.ok:
        raise NotVerified(f"{url} answers {answer.status}: no service that signs provenance is there")
    return answer.content


def digest_of(file: BinaryIO) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    while chunk := file.read(_BLOCK):
        digest.update(chunk)
    return digest.hexdigest()


def verified(envelope: bytes, keys: Sequence[RSAPublicKey], digest: str, expected: Expected) -> Made:
    """Return how the file with a digest was made. Raises NotVerified if not as expected, or not signed."""
    statement = _statement(envelope, keys)
    try:
        made = _made(statement, digest)
    except (LookupError, TypeError, AttributeError):
        raise NotVerified("the provenance is signed, but it is not a statement of this service about a job") from None
    if made is None:
        raise NotVerified(
            f"the file is not the one that the provenance is of: its SHA-256 is {digest}. It was changed, or the"
            " provenance is that of another artifact"
        )
    _compare("builder", made.builder, None if expected.builder is None else expected.builder.rstrip("/"))
    _compare("pipeline", made.pipeline, expected.pipeline)
    _compare("repository", made.repository, expected.repository)
    _compare("ref", made.ref, None if expected.ref is None else _full_ref(expected.ref))
    _compare("commit", made.commit, expected.commit)
    return made


def _compare(noun: str, found: str | None, wanted: str | None) -> None:
    """Raise NotVerified unless a fact is the one that is wanted, if one is."""
    if wanted is None or found == wanted:
        return
    if found is None:
        raise NotVerified(
            f"the service did not verify the {noun} of the build: a request brought its source, its pipeline or"
            " variables. Build the ref by its name, or by a push"
        )
    raise NotVerified(f"the {noun} is {found}, not {wanted}")


def _full_ref(ref: str) -> str:
    return ref if ref.startswith("refs/") else f"refs/heads/{ref}"


def _statement(envelope: bytes, keys: Sequence[RSAPublicKey]) -> Any:  # noqa: ANN401 - any JSON
    """Return what an envelope says, once one of the keys has signed it. Raises NotVerified."""
    try:
        document = json.loads(envelope)
        kind = document["payloadType"]
        payload = base64.b64decode(document["payload"], validate=True)
        signatures = [base64.b64decode(each["sig"], validate=True) for each in document["signatures"][:16]]
        message = signed_message(kind, payload)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise NotVerified("the provenance is no DSSE envelope: get it from the service that built the file") from None
    if not any(_signs(key, each, message) for key in keys for each in signatures):
        raise NotVerified("no key that is trusted here has signed the provenance: it was changed, or is another's")
    if kind != PAYLOAD_TYPE:
        raise NotVerified(f"what is signed is no in-toto statement, but {kind!r:.100}")
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        raise NotVerified("what is signed is no in-toto statement") from None


def _made(statement: Any, digest: str) -> Made | None:  # noqa: ANN401 - any JSON
    """Return what a signed statement says of a file; None if it is of others."""
    predicate = statement["predicate"]
    definition, run = predicate["buildDefinition"], predicate["runDetails"]
    kinds = (statement["_type"], statement["predicateType"], definition["buildType"])
    if kinds != (STATEMENT_TYPE, PREDICATE_TYPE, BUILD_TYPE):
        raise NotVerified(f"the provenance is signed, but of a kind that this command does not know: {kinds!r:.200}")
    if digest not in [each["digest"]["sha256"] for each in statement["subject"]]:
        return None
    given = cast("Mapping[str, Any]", definition["externalParameters"])
    return Made(
        sha256=digest,
        builder=run["builder"]["id"],
        pipeline=f"{given['organization']}/{given['pipeline']}",
        job=given["job"],
        repository=given.get("repository"),
        ref=given.get("ref"),
        commit=given.get("commit"),
        event=given["event"],
        fork=definition["internalParameters"]["fork"],
        invocation=run["metadata"]["invocationId"],
    )


def _signs(key: RSAPublicKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(signature, message, PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    return True


def _key(jwk: Mapping[str, str]) -> RSAPublicKey:
    if jwk["kty"] != "RSA":
        raise ValueError(jwk["kty"])
    return RSAPublicNumbers(_number(jwk["e"]), _number(jwk["n"])).public_key()


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
