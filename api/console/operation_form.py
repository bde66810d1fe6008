"""Forms that perform an operation of the API: their fields are the body that its responder checks."""

from __future__ import annotations

import json
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from api.console.pages import Page, redirect
from api.doors.http import call_of
from api.errors.catalog import ApiError
from api.fields import model_of
from api.openapi.operations import performs
from api.operations.operation import Operation
from api.request import ApiRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import falcon

    from api.console.site import Site
    from storage import Caller

    Sent = tuple[Mapping[str, str], object]
    """The names of the path, and the body."""

    Next = Callable[[ApiRequest, falcon.Response, Mapping[str, str], Any], None]
    """Answers a form, from the parameters of its path and the record of the operation's answer."""


class OperationForm(Page):
    """A form of a page.

    ``performed`` is an operation, or the responder of a resource of the API that knows callers by their cookie.
    ``document`` makes its body of the fields; the fields ``in_path`` are parameters of its path.
    """

    def __init__(
        self,
        site: Site,
        performed: Operation[Any] | Callable[..., None],
        after: Next,
        document: Callable[[Mapping[str, str]], object] = dict,
        in_path: tuple[str, ...] = (),
    ) -> None:
        self._site = site
        self._after = after
        self._document = document
        self._in_path = in_path
        if isinstance(performed, Operation):
            self._perform = partial(self._in_process, performed)
            self.on_post = performs(performed.id)(self._responder_to_post())
        else:
            self._perform = partial(_as_request, performed)
            declared = performed.operation  # type: ignore[attr-defined] # by @operation
            self.on_post = performs(declared.id)(self._responder_to_post())

    def _in_process(
        self, operation: Operation[Any], req: ApiRequest, resp: falcon.Response, caller: Caller, sent: Sent
    ) -> None:
        names, document = sent
        result = operation.perform(call_of(req, self._site.service, caller), names, lambda: document)
        resp.context.record = None if operation.record is None else model_of(operation.record).showing(result)

    def _responder_to_post(self) -> Callable[..., None]:
        def on_post(req: ApiRequest, resp: falcon.Response, **params: str) -> None:
            """Perform the operation, and show what follows."""
            caller, fields = self._site.cookies.form(req, resp)
            names = params | {name: fields.get(name, "") for name in self._in_path}
            try:
                self._perform(req, resp, caller, (names, self._document(fields)))
            except ApiError as error:
                if error.build_number is None:
                    raise
                # The page of the build that failed at once says why, and where.
                build = f"{params['org']}/pipelines/{params['pipeline']}/builds/{error.build_number}"
                resp.context.build_number = error.build_number
                redirect(req, resp, build)
                return
            resp.data = None
            self._after(req, resp, params, resp.context.get("record"))

        return on_post


def leads_to(path: Callable[[Mapping[str, str], Any], str]) -> Next:
    """Return what leads to another page, by its path below the root."""
    return lambda req, resp, params, record: redirect(req, resp, path(params, record))


def shows(site: Site, template: str, **values: object) -> Next:
    """Return what shows a record in this response alone."""

    def show(req: ApiRequest, resp: falcon.Response, params: Mapping[str, str], record: object) -> None:
        resp.status = 200
        site.pages.show(req, resp, template, record=record, **params, **values)

    return show


def given(*names: str) -> Callable[[Mapping[str, str]], dict[str, str]]:
    """Return a function to a body of those of the named fields that are not empty."""
    return lambda fields: {name: fields[name] for name in names if fields.get(name, "").strip()}


def _as_request(
    responder: Callable[..., None], req: ApiRequest, resp: falcon.Response, _caller: Caller, sent: Sent
) -> None:
    """Let a responder answer the request that a program would send."""
    names, document = sent
    body = json.dumps(document).encode()
    environ = {
        **req.env,
        "wsgi.input": BytesIO(body),
        "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": "application/json",
        "HTTP_X_REQUEST_ID": req.request_id,
    }
    made = ApiRequest(environ, req.options)
    made.context = req.context
    responder(made, resp, **names)
