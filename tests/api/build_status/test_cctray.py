"""The feed in the CCTray format (https://cctray.org/v1/)."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from api.build_status.cctray import cctray
from storage import BuildState, PipelineStatus

CREATED = datetime(2026, 1, 1, 8, tzinfo=UTC)
FINISHED = datetime(2026, 1, 2, 9, 30, 15, 999999, tzinfo=UTC)
URL = "https://ci.example.org/below"


def project(latest: BuildState | None, finished: BuildState | None, error_code: str | None = None) -> dict[str, str]:
    """Return the attributes of a pipeline's project."""
    ended = (None, None) if finished is None else (7, FINISHED)
    status = PipelineStatus("acme", "web", "W & X", CREATED, latest, ended[0], finished, ended[1], error_code)
    (found,) = ET.fromstring(cctray([status], URL))
    assert found.tag == "Project"
    return dict(found.attrib)


def test_a_project_has_every_field_of_the_format():
    assert project(BuildState.RUNNING, BuildState.PASSED) == {
        "name": "acme/web",
        "activity": "Building",
        "lastBuildStatus": "Success",
        "lastBuildLabel": "7",
        "lastBuildTime": "2026-01-02T09:30:15Z",
        "webUrl": f"{URL}/acme/pipelines/web",
    }


@pytest.mark.parametrize(
    ("finished", "error_code", "outcome"),
    [
        (BuildState.PASSED, None, "Success"),
        (BuildState.FAILED, None, "Failure"),
        (BuildState.FAILED, "invalid_ir", "Failure"),
        (BuildState.FAILED, "internal_error", "Exception"),
        (BuildState.CANCELED, None, "Unknown"),
        (None, None, "Unknown"),
    ],
)
def test_the_last_finished_build_is_the_status(finished: BuildState | None, error_code: str | None, outcome: str):
    assert project(finished, finished, error_code)["lastBuildStatus"] == outcome


@pytest.mark.parametrize("state", BuildState)
def test_a_project_is_building_while_its_latest_build_is(state: BuildState):
    assert project(state, None)["activity"] == ("Sleeping" if state.terminal else "Building")


def test_a_pipeline_without_a_finished_build_has_its_creation():
    found = project(None, None)
    assert (found["activity"], found["lastBuildLabel"], found["lastBuildTime"]) == (
        "Sleeping",
        "",
        "2026-01-01T08:00:00Z",
    )


def test_no_pipelines_are_a_document_too():
    assert cctray([], URL).startswith(b"<?xml version='1.0' encoding='utf-8'?>")
    assert list(ET.fromstring(cctray([], URL))) == []
