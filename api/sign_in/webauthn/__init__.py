"""WebAuthn: options for authenticators, and the verification of their answers. Pure.

Ceremonies are imported on first use: their library takes 100 ms, and most processes need none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from api.sign_in.webauthn.ceremonies import creation_options, request_options, verify_assertion, verify_attestation
    from api.sign_in.webauthn.refusals import AnswerRefused, UserNotVerified
else:
    __getattr__ = on_first_use(__name__)
