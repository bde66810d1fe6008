"""The configuration section of e-mail, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from storage import EmailInvalid, email_address, setting

__all__ = ["MailSettings"]

_SENDER = "ci-daemon@localhost"


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Section ``[mail]``: the SMTP server for e-mail."""

    host: str = setting("", "The name or address of the server; if it is empty, no e-mail is sent.")
    port: int = setting(587, "The port of the server.", at_least=1, at_most=65535)
    security: Literal["starttls", "tls", "none"] = setting("starttls", "The encryption of the connection.")
    user: str = setting("", "The user to log in as; if it is empty, the service does not log in.")
    password: str = setting("", "The password of `user`.", secret=True)
    sender: str = setting(_SENDER, "The address that e-mail comes from.")

    def __post_init__(self) -> None:
        if self.sender == _SENDER:
            return
        try:
            email_address(self.sender)
        except EmailInvalid as error:
            raise ValueError(f'sender must be an address such as "ci@example.org": {error}') from None
