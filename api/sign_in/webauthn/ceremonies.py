"""The ceremonies of WebAuthn: registration and sign-in, each with its options and its answer."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import UnsupportedAlgorithm
from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import (
    decode_credential_public_key,
    decoded_public_key_to_cryptography,
    encode_cbor,
    options_to_json_dict,
    parse_cbor,
)
from webauthn.helpers.cose import COSECRV, COSEAlgorithmIdentifier
from webauthn.helpers.decode_credential_public_key import DecodedEC2PublicKey, DecodedRSAPublicKey
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AttestationConveyancePreference,
    AuthenticationCredential,
    AuthenticatorAssertionResponse,
    AuthenticatorAttestationResponse,
    AuthenticatorSelectionCriteria,
    AuthenticatorTransport,
    PublicKeyCredentialDescriptor,
    RegistrationCredential,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from api.sign_in.webauthn.refusals import AnswerRefused, UserNotVerified
from storage import NewPasskey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from api.sign_in.browser_credentials import Assertion, Attestation
    from api.sign_in.relying_party import RelyingParty
    from storage import Passkey

_TIMEOUT_MS = 300_000
_LONGEST_KEY = 1024
_ALGORITHMS = [COSEAlgorithmIdentifier.ECDSA_SHA_256, COSEAlgorithmIdentifier.RSASSA_PKCS1_v1_5_SHA_256]
_RSA_BITS = range(2048, 4096 + 1)
_RSA_EXPONENT = 65537


def creation_options(
    party: RelyingParty, challenge: bytes, handle: bytes, email: str, name: str, known: Iterable[Passkey] = ()
) -> dict[str, Any]:
    """Return the options of `navigator.credentials.create`.

    Args:
        party: the relying party.
        challenge: what the answer must contain.
        handle: what the account is called in its passkeys.
        email: the account's name, shown by authenticators.
        name: the person's name; if it is empty, the address is shown.
        known: the account's passkeys, whose authenticators refuse to make another one.
    """
    options = generate_registration_options(
        rp_id=party.id,
        rp_name=party.name,
        user_id=handle,
        user_name=email,
        user_display_name=name or email,
        challenge=challenge,
        timeout=_TIMEOUT_MS,
        attestation=AttestationConveyancePreference.NONE,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        exclude_credentials=[
            PublicKeyCredentialDescriptor(
                each.credential_id, transports=[AuthenticatorTransport(name) for name in each.transports]
            )
            for each in known
        ],
        supported_pub_key_algs=_ALGORITHMS,
    )
    return options_to_json_dict(options)


def request_options(party: RelyingParty, challenge: bytes) -> dict[str, Any]:
    """Return the options of `navigator.credentials.get`; the authenticator knows whose passkeys it has."""
    options = generate_authentication_options(
        rp_id=party.id,
        challenge=challenge,
        timeout=_TIMEOUT_MS,
        allow_credentials=[],
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return options_to_json_dict(options)


def verify_attestation(party: RelyingParty, challenge: bytes, attestation: Attestation) -> NewPasskey:
    """Return the passkey of an authenticator's answer. Raises AnswerRefused or UserNotVerified.

    Nothing depends on the authenticator's model, so statements about it are neither asked for nor looked at.
    """
    with _refusing_faults():
        _check_client_data(attestation.client_data)
        found = verify_registration_response(
            credential=RegistrationCredential(
                _base64url(attestation.credential_id),
                attestation.credential_id,
                AuthenticatorAttestationResponse(
                    attestation.client_data, _without_statement(attestation.attestation_object)
                ),
            ),
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=[*party.origins],
            supported_pub_key_algs=_ALGORITHMS,
        )
        if found.credential_id != attestation.credential_id:
            raise AnswerRefused("the id is not that of the credential")
        _check_key(found.credential_public_key)
    if not found.user_verified:
        raise UserNotVerified
    return NewPasskey(
        found.credential_id, found.credential_public_key, found.sign_count, found.aaguid, attestation.transports
    )


def verify_assertion(party: RelyingParty, challenge: bytes, passkey: Passkey, assertion: Assertion) -> int:
    """Return the sign counter of an authenticator's answer. Raises AnswerRefused or UserNotVerified."""
    if assertion.user_handle != passkey.handle:
        raise AnswerRefused("the user handle is not that of the passkey's account")
    with _refusing_faults():
        _check_client_data(assertion.client_data)
        found = verify_authentication_response(
            credential=AuthenticationCredential(
                _base64url(assertion.credential_id),
                assertion.credential_id,
                AuthenticatorAssertionResponse(
                    assertion.client_data, assertion.authenticator_data, assertion.signature, assertion.user_handle
                ),
            ),
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=[*party.origins],
            credential_public_key=passkey.public_key,
            credential_current_sign_count=passkey.sign_count,
        )
    if not found.user_verified:
        raise UserNotVerified
    return found.new_sign_count


@contextmanager
def _refusing_faults() -> Iterator[None]:
    """Raise AnswerRefused for every fault that the library finds, or stumbles on, in an answer."""
    try:
        yield
    except WebAuthnException as error:
        raise AnswerRefused(str(error).removesuffix(". See __cause__ for more info")) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise AnswerRefused("a part of it is malformed") from error
    except RecursionError as error:
        raise AnswerRefused("a part of it is nested too deeply") from error


def _check_client_data(client_data: bytes) -> None:
    """Raise AnswerRefused for an answer that was given in a frame of another site's page."""
    document = json.loads(client_data)
    if not isinstance(document, dict) or document.get("crossOrigin") or "topOrigin" in document:
        raise AnswerRefused("the page was in a frame of another site")


def _without_statement(attestation_object: bytes) -> bytes:
    """Return an attestation object without the statement about the authenticator."""
    auth_data = parse_cbor(attestation_object)["authData"]
    return encode_cbor({"fmt": "none", "attStmt": {}, "authData": auth_data})


def _check_key(public_key: bytes) -> None:
    """Raise AnswerRefused or another fault unless a key is one of ES256 or RS256, of the usual size."""
    if len(public_key) > _LONGEST_KEY:
        raise AnswerRefused(f"the public key has more than {_LONGEST_KEY} bytes")
    key = decode_credential_public_key(public_key)
    match key:
        case DecodedEC2PublicKey(alg=COSEAlgorithmIdentifier.ECDSA_SHA_256, crv=COSECRV.P256):
            pass
        case DecodedRSAPublicKey(alg=COSEAlgorithmIdentifier.RSASSA_PKCS1_v1_5_SHA_256):
            modulus, exponent = int.from_bytes(key.n, "big"), int.from_bytes(key.e, "big")
            if modulus.bit_length() not in _RSA_BITS or exponent != _RSA_EXPONENT:
                raise AnswerRefused("an RSA key must have 2048 to 4096 bits and the exponent 65537")
        case _:
            raise AnswerRefused("the public key is none of ES256 or RS256")
    decoded_public_key_to_cryptography(key)  # raises ValueError for a point that is not on the curve


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
