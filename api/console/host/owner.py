"""The owner of the host in the console: signing in by a link, pages, and forms.

Pages and forms perform the owner's operations. A session is begun by a link alone that a command on the host printed
(`storage.OwnerSessions`). It is no session of a user, and no role leads to it. The owner's door writes the audit, with
the account on the host, the address that the browser has, and the word `console`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.vms import VmError
from api.console.errors import Page
from api.console.pages import redirect
from api.doors import LocalDoor
from api.errors.catalog import ApiError
from api.openapi.operations import of_owner
from api.operations import Refused
from storage import EmailInvalid, EmailTaken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import falcon

    from api.console.site import Site
    from api.operations import Box, Operation
    from storage import OwnerSession

    Values = Callable[[LocalDoor, falcon.Request], Mapping[str, object]]
    """Returns what a page shows, from the answers of operations."""

    Document = Callable[[Mapping[str, str]], object]
    """Returns the body of an operation, from the fields of its form."""

_SIGNS_IN = "openConsoleSession"
_REFUSALS = (Refused, VmError, EmailTaken, EmailInvalid)


class OwnersConsole:
    """The way of the owner's pages to the operations. Safe in any thread."""

    def __init__(self, site: Site, box: Box) -> None:
        self.site = site
        self._service = replace(site.service, box=box)

    def door(self, req: falcon.Request, session: OwnerSession) -> LocalDoor:
        """Return the door of a session to the owner's operations."""
        return LocalDoor(self._service, session.operator, self.site.addresses.address(req), "console")

    def show(self, req: falcon.Request, resp: falcon.Response, template: str, **values: object) -> None:
        """Respond with a page of the owner."""
        self.site.cookies.caller(req)  # for the head of the page, which has the menu of a user
        token = self.site.cookies.owner_form_token(req)
        self.site.pages.show(req, resp, f"host/{template}", form_token=token, **values)


class OwnerPage(Page):
    """A page below ``/admin``, made of a template and what operations answer."""

    def __init__(self, console: OwnersConsole, template: str, values: Values) -> None:
        self._console = console
        self._template = template
        self._values = values

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the page. Raises ApiError ``owner_session_required`` to everybody but the owner."""
        session = self._console.site.cookies.require_owner(req)
        try:
            values = self._values(self._console.door(req, session), req)
        except _REFUSALS as error:
            raise ApiError("host_refuses", str(error)) from error
        self._console.show(req, resp, self._template, **values)


class OwnerForm(Page):
    """A form that performs an operation of the owner and leads to a page, or shows what ``shown`` names."""

    def __init__(
        self,
        console: OwnersConsole,
        performed: Operation[Any],
        back: str,
        document: Document | None = None,
        *,
        in_path: tuple[str, ...] = (),
        shown: str | None = None,
    ) -> None:
        self._console = console
        self._performed = performed
        self._back = back
        self._document = document
        self._in_path = in_path
        self._shown = shown

    @of_owner
    def on_post(self, req: falcon.Request, resp: falcon.Response, **names: str) -> None:
        """Perform the operation. Raises ApiError, ``host_refuses`` with what the operation says."""
        session, fields = self._console.site.cookies.owner_form(req, resp)
        names |= {name: fields.get(name, "").strip() for name in self._in_path}
        body = None if self._document is None else self._document(fields)
        try:
            result = self._console.door(req, session).perform(self._performed, names, body)
        except _REFUSALS as error:
            raise ApiError("host_refuses", str(error)) from error
        if (failed := getattr(result, "error", None)) is not None:
            raise ApiError("host_refuses", str(failed))
        if self._shown is None:
            redirect(req, resp, self._back)
        else:
            self._console.show(req, resp, self._shown, result=result, url=self._console.site.url, **names)


class SignInPage(Page):
    """``/admin/sign-in``, where the link leads.

    Its token is in the fragment, which browsers keep to themselves.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the form, which a script fills in, or a person."""
        self._site.cookies.caller(req)
        token = self._site.cookies.visitors_form_token(req, resp)
        self._site.pages.show(req, resp, "host/sign_in", form_token=token)

    @of_owner
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Use up the link. Raises ApiError ``owner_session_required`` if it is not good any more."""
        fields = self._site.cookies.visitors_form(req, resp)
        address, storage = self._site.addresses.address(req), self._site.storage
        opened = storage.owner_sessions.open(fields.get("token", "").strip())
        if opened is None:
            storage.audit.write("nobody", _SIGNS_IN, "", "refused, console", origin=address)
            raise ApiError("owner_session_required", "the link is unknown, used or older than 15 minutes")
        session, token = opened
        storage.audit.write(session.operator, _SIGNS_IN, session.uuid, "console", origin=address)
        self._site.cookies.begin_owner_session(resp, token)
        redirect(req, resp, "admin")


class SignOutForm(Page):
    """``/admin/sign-out``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    @of_owner
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """End this session of the owner."""
        session, _ = self._site.cookies.owner_form(req, resp)
        address = self._site.addresses.address(req)
        self._site.cookies.end_owner_session(req, resp)
        self._site.storage.audit.write(session.operator, "endConsoleSession", session.uuid, "console", origin=address)
        redirect(req, resp, "")
