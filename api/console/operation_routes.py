"""The paths of forms of pipelines and builds, and of the pages of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.cookies import local_path
from api.console.operation_form import OperationForm, given, given_patterns, leads_to, number_of
from api.console.pipelines import PipelineSettingsPage, build_of, rebuild_of, settings_of, start_of
from api.operations import builds, culprits, favourites, jobs, pipelines, proofs, quarantine, schedules, secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.console.operation_form import Next
    from api.console.site import Site
    from api.openapi.operations import Routes
    from api.operations.builds import BuildRecord


def add_operation_pages(routes: Routes, site: Site, url: str) -> None:
    """Route the forms of pipelines and builds, and the pages of settings."""
    pipeline = "/{org}/pipelines/{pipeline}"
    routes.add_page(f"{pipeline}/settings", PipelineSettingsPage(site, url))
    routes.add_page(f"{pipeline}/builds", OperationForm(site, builds.create_build, leads_to(_build), build_of))
    routes.add_page(f"{pipeline}/start", OperationForm(site, builds.start_build, leads_to(_build), start_of))
    this_build = leads_to(lambda params, _: _build_path(params, params["number"]))
    for action, performed in (
        ("cancel", builds.cancel_build),
        ("approve", builds.approve_build),
        ("retry", builds.retry_build),
        ("culprit/stop", culprits.stop_culprit_search),
    ):
        routes.add_page(f"{pipeline}/builds/{{number}}/{action}", OperationForm(site, performed, this_build))
    routes.add_page(
        f"{pipeline}/builds/{{number}}/jobs/{{job_id}}/retry", OperationForm(site, jobs.retry_job, this_build)
    )
    tests = leads_to(lambda params, record: f"{_build_path(params, str(record.build_number))}?view=tests#proofs")
    prove = OperationForm(site, proofs.prove_tests, tests, _proof_of)
    routes.add_page(f"{pipeline}/builds/{{number}}/jobs/{{job_id}}/prove", prove)
    routes.add_page(f"{pipeline}/proofs/{{proof}}/cancel", OperationForm(site, proofs.cancel_proof, tests))
    here = leads_to(lambda params, _: local_path(params["next"]))
    form = OperationForm(site, quarantine.quarantine_test, here, _quarantine_of, in_path=("next",))
    routes.add_page(f"{pipeline}/quarantine", form)
    form = OperationForm(site, quarantine.release_test, here, in_path=("next",))
    routes.add_page(f"{pipeline}/quarantine/{{quarantined}}/release", form)
    rebuild = OperationForm(site, builds.rebuild_build, leads_to(_build), rebuild_of)
    routes.add_page(f"{pipeline}/builds/{{number}}/rebuild", rebuild)
    where = leads_to(lambda params, _: local_path(params["next"]))
    for action, chosen in (("favourite", favourites.add_favourite), ("no-favourite", favourites.remove_favourite)):
        routes.add_page(f"{pipeline}/{action}", OperationForm(site, chosen, where, in_path=("next",)))
    form = OperationForm(site, pipelines.update_pipeline, _settings_of_pipeline(), settings_of)
    routes.add_page(f"{pipeline}/settings/update", form)
    form = OperationForm(site, pipelines.delete_pipeline, leads_to(_organization))
    routes.add_page(f"{pipeline}/settings/delete", form)
    back = _settings_of_pipeline("schedules")
    document = given(schedules.CreateScheduleRequest)
    routes.add_page(f"{pipeline}/schedules", OperationForm(site, schedules.create_schedule, back, document))
    routes.add_page(f"{pipeline}/schedules/{{id}}/delete", OperationForm(site, schedules.delete_schedule, back))
    back = _settings_of_pipeline("secrets")
    patterns = given_patterns(secrets.SetSecretRequest)
    form = OperationForm(site, secrets.set_pipeline_secret, back, patterns, in_path=("name",))
    routes.add_page(f"{pipeline}/secrets", form)
    patterns = given_patterns(secrets.LimitSecretRequest)
    form = OperationForm(site, secrets.limit_pipeline_secret, back, patterns, in_path=("name",))
    routes.add_page(f"{pipeline}/secrets/limits", form)
    routes.add_page(f"{pipeline}/secrets/{{name}}/delete", OperationForm(site, secrets.delete_pipeline_secret, back))


def _quarantine_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body for a form of quarantine; what is no number of days is refused as it is."""
    return {**given(quarantine.QuarantineTestRequest)(fields), "days": number_of(fields.get("days", ""))}


def _proof_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body for a form that proves one test, or without one all that failed."""
    return {"tests": [fields["test"]]} if fields.get("test") else {}


def _build(params: Mapping[str, str], record: BuildRecord) -> str:
    return _build_path(params, record.number)


def _build_path(params: Mapping[str, str], number: object) -> str:
    return f"{params['org']}/pipelines/{params['pipeline']}/builds/{number}"


def _organization(params: Mapping[str, str], _record: object) -> str:
    return params["org"]


def _settings_of_pipeline(section: str = "") -> Next:
    """Return what leads to a section of the settings of a pipeline."""
    fragment = f"#{section}" if section else ""
    return leads_to(lambda params, _: f"{params['org']}/pipelines/{params['pipeline']}/settings{fragment}")
