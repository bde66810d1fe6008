"""The page of an organization's environments, and its forms."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from api.console.errors import Page
from api.console.operation_form import OperationForm, given, leads_to, number_of
from api.console.pipelines import host_pages
from api.operations import environments
from storage import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from api.console.site import Site
    from api.openapi.operations import Routes
    from api.operations.builds import BuildRecord

_MOST = 200
_HISTORY = 20
_HOUR = 3600


class EnvironmentsPage(Page):
    """``/{org}/environments``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show what is in each environment, and its last deployments, to a member; only admins change them."""
        member = self._site.access.member(req, org)
        stored = self._site.storage.environments
        found = stored.page(member.organization.id, _MOST, None).rows
        deployed = [stored.deployed(each) for each in found]
        history = {each.name: stored.deployments(each, _HISTORY, None).rows for each in found}
        shown = chain.from_iterable((each.current, *each.waiting) for each in deployed)
        builds = self._site.storage.build_history.listed(
            {each.build_id for each in chain(shown, *history.values()) if each is not None}
        )
        self._site.pages.show(
            req,
            resp,
            "organization/environments",
            organization=member.organization,
            admin=member.role.covers(Role.ADMIN),
            environments=deployed,
            history=history,
            pages=host_pages(self._site, (each.build for each in builds.values())),
            form_token=self._site.form_token(req),
        )


def environment_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``createEnvironment`` and ``updateEnvironment`` for their forms.

    Approvers are separated by commas or spaces.
    """
    hours = number_of(fields.get("hours", ""))
    body: dict[str, object] = {
        "approvers": fields.get("approvers", "").replace(",", " ").split(),
        "not_author": fields.get("not_author") == "yes",
        "url": fields.get("url", "").strip() or None,
        "gate_seconds": hours * _HOUR if isinstance(hours, int) else hours,
    }
    return body | ({"name": fields["name"].strip()} if "name" in fields else {})


def add_environment_pages(routes: Routes, site: Site) -> None:
    """Route the page of environments, and the answers to gates."""
    listed = "/{org}/environments"
    one, back = f"{listed}/{{name}}", leads_to(lambda params, _: f"{params['org']}/environments")
    routes.add_page(listed, EnvironmentsPage(site))
    routes.add_page(f"{listed}/create", OperationForm(site, environments.create_environment, back, environment_of))
    routes.add_page(f"{one}/update", OperationForm(site, environments.update_environment, back, environment_of))
    routes.add_page(f"{one}/delete", OperationForm(site, environments.delete_environment, back))
    document = given(environments.RollBackRequest)
    routes.add_page(
        f"{one}/rollback", OperationForm(site, environments.roll_back_environment, leads_to(_build), document)
    )
    job = "/{org}/pipelines/{pipeline}/builds/{number}/jobs/{job_id}"
    answer = given(environments.AnswerGateRequest)
    for word, performed in (("approve", environments.approve_job), ("reject", environments.reject_job)):
        routes.add_page(f"{job}/{word}", OperationForm(site, performed, leads_to(_job), answer))


def _job(params: Mapping[str, str], _record: object) -> str:
    return f"{params['org']}/pipelines/{params['pipeline']}/builds/{params['number']}/jobs/{params['job_id']}"


def _build(params: Mapping[str, str], record: BuildRecord) -> str:
    return f"{params['org']}/pipelines/{record.pipeline_slug}/builds/{record.number}"
