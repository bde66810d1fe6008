"""The page for readers of mail about builds who want no more of it, with or without an account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.errors import Page
from api.errors.catalog import ApiError
from api.openapi.operations import performs

if TYPE_CHECKING:
    import falcon

    from api.console.pages import Pages
    from api.middleware.rate_limits import RateLimits
    from storage import Storage


class MailStopPage(Page):
    """``/account/mail/stop``. The token in the address is from a mail to the address that it is about.

    Opening the page changes nothing, because programs that look for malware open every link of a mail.
    """

    def __init__(self, storage: Storage, pages: Pages, limits: RateLimits) -> None:
        self._opt_outs = storage.mail_opt_outs
        self._pages = pages
        self._limits = limits

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Ask whether the reader wants no more mail about builds."""
        self._pages.show(req, resp, "mail_stop", token=req.get_param("token"), email=self._email(req), stopped=False)

    @performs("updateMailSettings")
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Send no more of it. A mail program posts here, too, when its user unsubscribes (RFC 8058)."""
        self._limits.limit_address(req, resp)
        email = self._email(req)
        self._opt_outs.set(email, out=True)
        self._pages.show(req, resp, "mail_stop", token="", email=email, stopped=True)

    def _email(self, req: falcon.Request) -> str:
        """Return the address that the token is about. Raises ApiError."""
        email = self._opt_outs.address_of(req.get_param("token") or "")
        if email is None:
            raise ApiError("passkey_token_invalid", "this link is not whole: copy it from the mail again")
        return email
