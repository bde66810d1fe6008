"""The configuration section of e-mail, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from storage import EmailInvalid, email_address

__all__ = ["MailSettings"]

_HIGHEST_PORT = 65535
_SENDER = "ci-daemon@localhost"


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Section ``[mail]``: the SMTP server for e-mail. Without a ``host`` none is sent.

    ``security`` is "starttls", "tls" or "none". Without a ``user`` the service does not log in. ``sender`` is the
    address that e-mail comes from.
    """

    host: str = ""
    port: int = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = _SENDER

    def __post_init__(self) -> None:
        if not 0 < self.port <= _HIGHEST_PORT:
            raise ValueError(f"port must be from 1 to {_HIGHEST_PORT}")
        if self.sender == _SENDER:
            return
        try:
            email_address(self.sender)
        except EmailInvalid as error:
            raise ValueError(f'sender must be an address such as "ci@example.org": {error}') from None
