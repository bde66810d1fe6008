"""The configuration section of e-mail, with its defaults."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Literal

from storage import EmailInvalid, email_address, immutable, setting

_SENDER = "ci-daemon@localhost"


@immutable
class MailSettings:
    """Section ``[mail]``: the SMTP server for e-mail.

    The server's certificate is verified. A server that does not offer the configured encryption gets no mail, and the
    password goes to a server on another host only when the connection is encrypted.
    """

    host: str = setting("", "The name or address of the server; if it is empty, no e-mail is sent.", live=True)
    port: int = setting(587, "The port of the server.", at_least=1, at_most=65535, live=True)
    security: Literal["starttls", "tls", "none"] = setting("starttls", "The encryption of the connection.", live=True)
    user: str = setting("", "The user to log in as; if it is empty, the service does not log in.", live=True)
    password: str = setting("", "The password of `user`.", secret=True, live=True)
    sender: str = setting(_SENDER, "The address that e-mail comes from.", live=True)

    def __post_init__(self) -> None:
        if self.user and self.security == "none" and not _is_loopback(self.host):
            raise ValueError(
                'security must be "starttls" or "tls" if user is set: without encryption,'
                " the password goes to a server on this host alone"
            )
        if self.sender == _SENDER:
            return
        try:
            email_address(self.sender)
        except EmailInvalid as error:
            raise ValueError(f'sender must be an address such as "ci@example.org": {error}') from None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
