"""The person of whom a provider tells, as the storage takes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from storage import EmailInvalid, ProvenIdentity, email_address, immutable

_SUBJECT = re.compile(r"[ -~]{1,255}", re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_LONGEST_NAME = 255


class ProviderError(Exception):
    """The provider refused, is away, or answers what it must not. The message names no secret."""


@immutable
class CodeExchange:
    """The findings of a page to which the provider sent a person back.

    ``redirect_uri`` is that of the authorize step, for which the page made ``code_verifier`` and ``nonce``.
    """

    code: str
    redirect_uri: str
    code_verifier: str | None = None
    nonce: str | None = None


def from_claims(provider: str, claims: Mapping[str, object]) -> ProvenIdentity:
    """Return a person from OpenID Connect's claims. Raises ProviderError without a subject.

    Some providers write ``email_verified`` as a string.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str):
        raise ProviderError("the provider names no subject")
    verified = claims.get("email_verified")
    return _person(provider, subject, claims.get("email"), claims.get("name"), verified is True or verified == "true")


def from_github(user: Mapping[str, object], emails: object) -> ProvenIdentity:
    """Return a person from GitHub's user and the user's e-mail addresses.

    The primary address is taken if it is verified, else another. The address in the profile proves nothing. Raises
    ProviderError without an ID.
    """
    subject = user.get("id")
    if type(subject) is not int or subject <= 0:  # exactly: a bool is an int too
        raise ProviderError("GitHub names no user")
    told = [each for each in emails if isinstance(each, Mapping)] if isinstance(emails, list) else []
    verified = [each for each in told if each.get("verified") is True]
    chosen = min(verified, key=lambda each: each.get("primary") is not True, default={})
    return _person("github", str(subject), chosen.get("email"), user.get("name"), verified=True)


def _person(provider: str, subject: str, email: object, name: object, verified: bool) -> ProvenIdentity:  # noqa: FBT001 - as the provider says
    if not _SUBJECT.fullmatch(subject):
        raise ProviderError("the provider names a subject that is empty, too long or not ASCII")
    address = _address(email)
    return ProvenIdentity(provider, subject, address, verified=verified and address != "", name=_name(name))


def _address(told: object) -> str:
    try:
        return email_address(told) if isinstance(told, str) else ""
    except EmailInvalid:
        return ""


def _name(told: object) -> str:
    return _UNPRINTABLE.sub(" ", told).strip()[:_LONGEST_NAME].strip() if isinstance(told, str) else ""
