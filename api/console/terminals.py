"""Pages on forks of a job's disk: of a terminal, with what its script sends, and of the files."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from api.console.errors import Page
from api.console.operation_form import OperationForm, leads_to, number_of, shows_json
from api.doors.http import HttpDoor, answer_download, call_of
from api.operations import disk_files, terminals
from api.operations.things import job_in_build
from api.resources.terminal_output import TerminalOutputResource

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from api.console.operation_form import Next
    from api.console.site import Site
    from api.openapi.operations import Routes
    from api.operations.disk_files import DiskFolderRecord
    from api.request import ApiRequest
    from storage import Caller


def add_terminal_pages(routes: Routes, site: Site, job: str) -> None:
    """Route them below the path of a job's page."""
    opened = leads_to(lambda params, record: f"{_job_page(params)}/terminals/{record.id}")
    routes.add_page(f"{job}/terminals", OperationForm(site, terminals.open_terminal, opened, _wanted))
    here = f"{job}/terminals/{{terminal}}"
    door = HttpDoor(site.service, site.access, site.pager, site.rates)
    routes.add_page(here, TerminalPage(site, door))
    routes.add_page(f"{here}/output", TerminalOutputResource(site.service, door, site.slots))
    routes.add_page(f"{here}/input", KeysForm(site, terminals.type_in_terminal, shows_json, _numbers))
    routes.add_page(f"{here}/size", KeysForm(site, terminals.resize_terminal, _shows_nothing, _numbers))
    routes.add_page(f"{job}/files", OperationForm(site, disk_files.list_disk_files, _shows_folder(site), _looked_at))
    routes.add_page(f"{job}/files/content", FileForm(site, disk_files.take_disk_file, _sends_file, _looked_at))
    back = leads_to(lambda params, _: _job_page(params))
    routes.add_page(f"{here}/close", OperationForm(site, terminals.close_terminal, back))


class TerminalPage(Page):
    """``…/jobs/{job_id}/terminals/{terminal}``."""

    def __init__(self, site: Site, door: HttpDoor) -> None:
        self._site = site
        self._door = door

    def on_get(self, req: falcon.Request, resp: falcon.Response, **names: str) -> None:
        """Show the terminal, or why it has ended."""
        site = self._site
        record = self._door.perform(req, resp, terminals.get_terminal, names, dict)
        build = site.access.build(req, names["org"], names["pipeline"], names["number"])
        its_pipeline = site.storage.pipelines.by_id(build.pipeline_id)
        site.pages.show(
            req,
            resp,
            "logs/terminal",
            build=build,
            job=job_in_build(site.storage, build, names["job_id"]),
            pipeline_name="" if its_pipeline is None else its_pipeline.name,
            terminal=record,
            ended=site.engine.terminals.gone(record.uuid) or "",
            form_token=site.form_token(req),
        )


class KeysForm(OperationForm):
    """A form that a script sends with each key. It counts for no limit, as in the API."""

    def _sent(self, req: ApiRequest, resp: falcon.Response) -> tuple[Caller | None, Mapping[str, str]]:
        return self._site.cookies.form(req, resp, limited=False)


class FileForm(OperationForm):
    """A form whose answer is a file, which the browser saves."""

    def _perform(
        self, req: ApiRequest, resp: falcon.Response, caller: Caller | None, names: Mapping[str, str], document: object
    ) -> None:
        call = call_of(req, resp, self._site.service, self._site.rates, caller)
        resp.context.taken = self._performed.perform(call, names, lambda: document)


def _sends_file(req: ApiRequest, resp: falcon.Response, _params: Mapping[str, str], _record: object) -> None:
    answer_download(req, resp, resp.context.taken)
    resp.cache_control = ["no-store"]


def _shows_folder(site: Site) -> Next:
    def show(req: ApiRequest, resp: falcon.Response, params: Mapping[str, str], folder: DiskFolderRecord) -> None:
        build = site.access.build(req, params["org"], params["pipeline"], params["number"])
        its_pipeline = site.storage.pipelines.by_id(build.pipeline_id)
        resp.status = 200
        resp.cache_control = ["no-store"]
        site.pages.show(
            req,
            resp,
            "logs/files",
            build=build,
            job=job_in_build(site.storage, build, params["job_id"]),
            pipeline_name="" if its_pipeline is None else its_pipeline.name,
            folder=folder,
            above=posixpath.normpath(f"{folder.path}/.."),
            form_token=site.form_token(req),
        )

    return show


def _looked_at(fields: Mapping[str, str]) -> dict[str, object]:
    return {"path": fields.get("path") or ".", "before": fields.get("before") == "yes"}


def _shows_nothing(_req: ApiRequest, resp: falcon.Response, _params: Mapping[str, str], _record: object) -> None:
    resp.status = 204


def _wanted(fields: Mapping[str, str]) -> dict[str, object]:
    return {"before": fields.get("before") == "yes"}


def _numbers(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the fields of a body, with those that are numbers as such; the operation checks them."""
    return {
        name: text if name == "data" else number_of(text)
        for name, text in fields.items()
        if name in {"at", "data", "columns", "rows"}
    }


def _job_page(params: Mapping[str, str]) -> str:
    return "{org}/pipelines/{pipeline}/builds/{number}/jobs/{job_id}".format_map(params)
