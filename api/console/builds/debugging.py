"""The VMs of failed jobs that are held for debugging, as pages show them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from storage import MICRO_CENTS, immutable

if TYPE_CHECKING:
    from storage import Build, Hold, Job, Storage


@immutable
class HeldVm:
    """A held VM, its job, and the line that opens a shell in it on the service's host.

    ``price`` is what a minute of it costs; empty where builds need no credit.
    """

    hold: Hold
    job: Job
    line: str
    price: str


def held_vms(storage: Storage, build: Build) -> list[HeldVm]:
    """Return the held VMs of a build."""
    holds = storage.holds.of_build(build.id)
    jobs = {job.id: job for job in storage.jobs.of_build(build.id)} if holds else {}
    priced = storage.billing.require_credit
    held = [
        HeldVm(hold, jobs[hold.job_id], shell_line(build, jobs[hold.job_id]), _price(hold) if priced else "")
        for hold in holds
    ]
    return sorted(held, key=lambda each: each.job.position)


def _price(hold: Hold) -> str:
    return f"{hold.micro_cents * 60 / MICRO_CENTS:.4g} cents a minute"


def shell_line(build: Build, job: Job) -> str:
    """Return the line that opens a shell in the VM of a job."""
    return shlex.join(("ci-daemon", "debug", build.name, job.step_key))
