"""Refusals of answers that authenticators gave."""

from __future__ import annotations


class AnswerRefused(Exception):
    """An authenticator's answer is not accepted; the message says why."""


class UserNotVerified(Exception):
    """The authenticator did not verify its user, by a PIN, a fingerprint or a face."""
