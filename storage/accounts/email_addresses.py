"""E-mail addresses, in the normal form in which accounts and invites are compared."""

from __future__ import annotations

from storage.errors import EmailInvalid

_PUBLIC = ".example.org"
"""Appended to the domain for the check: the library refuses private domains such as corp.local."""


def email_address(text: str) -> str:
    """Return an address trimmed, in lower case, with its domain in ASCII. Raises EmailInvalid."""
    from email_validator import EmailNotValidError, validate_email  # noqa: PLC0415 - 60 ms for a command that needs none

    try:
        found = validate_email(f"{text.strip()}{_PUBLIC}", check_deliverability=False, allow_smtputf8=False)
    except EmailNotValidError as error:
        raise EmailInvalid(str(error)) from None
    return (found.ascii_email or "").lower().removesuffix(_PUBLIC)
