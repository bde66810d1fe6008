"""The status of pipelines in the CCTray format, which desktop and wall monitors read.

Format: https://cctray.org/v1/
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from storage import BuildErrorCode, BuildState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage import PipelineStatus


def cctray(statuses: Iterable[PipelineStatus], url: str) -> bytes:
    """Return the document of these pipelines, for a service at ``url``."""
    projects = ET.Element("Projects")
    for status in statuses:
        name = f"{status.organization_slug}/{status.pipeline_slug}"
        when = status.finished_at or status.created_at
        ET.SubElement(
            projects,
            "Project",
            name=name,
            activity=_activity(status.latest_state),
            lastBuildStatus=_outcome(status),
            lastBuildLabel="" if status.finished_number is None else str(status.finished_number),
            lastBuildTime=when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            webUrl=f"{url}/{status.organization_slug}/pipelines/{status.pipeline_slug}",
        )
    ET.indent(projects)
    written: bytes = ET.tostring(projects, encoding="utf-8", xml_declaration=True)
    return written


def _activity(latest: BuildState | None) -> str:
    return "Sleeping" if latest is None or latest.terminal else "Building"


def _outcome(status: PipelineStatus) -> str:
    """Return the status of the last finished build; a canceled one says nothing about the pipeline."""
    match status.finished_state:
        case BuildState.PASSED:
            return "Success"
        case BuildState.FAILED if status.error_code == BuildErrorCode.INTERNAL_ERROR:
            return "Exception"
        case BuildState.FAILED:
            return "Failure"
        case _:
            return "Unknown"
