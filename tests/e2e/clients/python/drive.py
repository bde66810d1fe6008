"""One build through a client that openapi-python-client generated from the document.

Usage: python drive.py URL TOKEN ORGANIZATION IR. It prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TypeVar

from client import AuthenticatedClient
from client.api.billing import get_billing_balance
from client.api.builds import create_build, get_build
from client.api.jobs import list_jobs
from client.api.logs import get_job_log
from client.api.pipelines import create_pipeline, get_pipeline
from client.models import Build, BuildState, CreateBuildRequest, CreatePipelineRequest, ErrorEnvelope

T = TypeVar("T")


def given(answer: T | ErrorEnvelope | None) -> T:
    if isinstance(answer, ErrorEnvelope):
        raise SystemExit(f"{answer.error.code}: {answer.error.message}")
    if answer is None:
        raise SystemExit("nothing came")
    return answer


def finished(org: str, pipeline: str, number: int, api: AuthenticatedClient) -> Build:
    while True:
        build = given(get_build.sync(org, pipeline, number, client=api))
        if build.state in {BuildState.PASSED, BuildState.FAILED, BuildState.CANCELED}:
            return build
        time.sleep(0.05)


def main(url: str, token: str, org: str, ir: str) -> None:
    api = AuthenticatedClient(base_url=url, token=token)
    new = CreatePipelineRequest(
        name="From Python", repository="https://example.org/acme/demo.git", default_branch="main"
    )
    pipeline = given(create_pipeline.sync(org, client=api, body=new)).slug
    body = CreateBuildRequest(branch="main", commit="c0ffee", pipeline_ir=ir)
    number = given(create_build.sync(org, pipeline, client=api, body=body)).number
    build = finished(org, pipeline, number, api)
    job = given(list_jobs.sync(org, pipeline, number, client=api)).data[0]
    missing = get_pipeline.sync(org, "nothing", client=api)
    seen = {
        "slug": pipeline,
        "state": build.state,
        "exit": job.exit_code,
        "log": given(get_job_log.sync(org, pipeline, number, job.id, client=api)),
        "balance_cents": given(get_billing_balance.sync(org, client=api)).balance_cents,
        "error": missing.error.code if isinstance(missing, ErrorEnvelope) else None,
    }
    sys.stdout.write(json.dumps(seen))


main(*sys.argv[1:])
