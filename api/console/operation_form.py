"""Forms that perform an operation of the API: their fields are its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from api.bodies import answer
from api.body import body_fields
from api.console.errors import Page
from api.console.pages import redirect, whole_number
from api.doors.http import call_of
from api.errors.catalog import ApiError
from api.models import model_of
from api.openapi.operations import performs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import falcon

    from api.console.site import Site
    from api.operations.operation import Operation
    from api.request import ApiRequest
    from storage import Caller

    Next = Callable[[ApiRequest, falcon.Response, Mapping[str, str], Any], None]
    """Answers a form, from the parameters of its path and the record of the operation's answer."""


class OperationForm(Page):
    """A form of a page.

    ``document`` makes its body of the fields; the fields ``in_path`` are parameters of its path.
    """

    def __init__(
        self,
        site: Site,
        performed: Operation[Any],
        after: Next,
        document: Callable[[Mapping[str, str]], object] = dict,
        in_path: tuple[str, ...] = (),
    ) -> None:
        self._site = site
        self._after = after
        self._document = document
        self._in_path = in_path
        self._performed = performed
        self.on_post = performs(performed.id)(self._responder_to_post())

    def _perform(
        self, req: ApiRequest, resp: falcon.Response, caller: Caller | None, names: Mapping[str, str], document: object
    ) -> None:
        performed = self._performed
        call = call_of(req, resp, self._site.service, self._site.rates, caller)
        result = performed.perform(call, names, lambda: document)
        resp.context.record = None if performed.record is None else model_of(performed.record).showing(result)

    def _responder_to_post(self) -> Callable[..., None]:
        def on_post(req: ApiRequest, resp: falcon.Response, **params: str) -> None:
            """Perform the operation, and show what follows."""
            caller, fields = self._sent(req, resp)
            names = params | {name: fields.get(name, "") for name in self._in_path}
            try:
                self._perform(req, resp, caller, names, self._document(fields))
            except ApiError as error:
                if error.build_number is None:
                    raise
                # The page of the build that failed at once says why, and where.
                build = f"{params['org']}/pipelines/{params['pipeline']}/builds/{error.build_number}"
                resp.context.build_number = error.build_number
                redirect(req, resp, build)
                return
            self._after(req, resp, names, resp.context.get("record"))

        return on_post

    def _sent(self, req: ApiRequest, resp: falcon.Response) -> tuple[Caller | None, Mapping[str, str]]:
        """Return who sent the form, and its fields. Raises ApiError."""
        return self._site.cookies.form(req, resp)


class VisitorsForm(OperationForm):
    """A form of a page that anybody may see."""

    def _sent(self, req: ApiRequest, resp: falcon.Response) -> tuple[Caller | None, Mapping[str, str]]:
        return None, self._site.cookies.visitors_form(req, resp)


def leads_to(path: Callable[[Mapping[str, str], Any], str]) -> Next:
    """Return what leads to another page, by its path below the root."""
    return lambda req, resp, params, record: redirect(req, resp, path(params, record))


def shows(site: Site, template: str, **values: object) -> Next:
    """Return what shows a record in this response alone."""

    def show(req: ApiRequest, resp: falcon.Response, params: Mapping[str, str], record: object) -> None:
        resp.status = 200
        site.pages.show(req, resp, template, record=record, **params, **values)

    return show


def shows_json(_req: ApiRequest, resp: falcon.Response, _params: Mapping[str, str], record: Any) -> None:  # noqa: ANN401 - a model
    """Show a record as the API does, for the script of a page, and nobody keeps it."""
    resp.cache_control = ["no-store"]
    answer(resp, record)


def number_of(text: str) -> int | str:
    """Return the number that a field is; else its text as it came, to be refused."""
    found = whole_number(text.strip())
    return text if found is None else found


def given(body: type) -> Callable[[Mapping[str, str]], dict[str, str]]:
    """Return a function to a body of this class, of those of its fields that are not empty."""
    return lambda fields: {name: fields[name] for name in body_fields(body) if fields.get(name, "").strip()}


def given_patterns(body: type) -> Callable[[Mapping[str, str]], dict[str, object]]:
    """Return what `given` does, for a body with patterns between commas in all fields but ``value``."""
    of_fields = given(body)

    def document(fields: Mapping[str, str]) -> dict[str, object]:
        filled = of_fields(fields)
        return {name: text if name == "value" else _patterns(text) for name, text in filled.items()}

    return document


def _patterns(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip() not in {"", "-"}]
