"""The inputs of a build that follows another one: its inputs and outputs, as the trigger names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir import UpstreamValue, values_of_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage import Build, Storage


def given_inputs(storage: Storage, upstream: Build, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the inputs that a build gives those that follow it, by their names.

    What it does not have is left out, so that the input has its default: a job that failed may have given nothing.
    Whether a value fits is known as the build that follows is planned.
    """
    values = {name: UpstreamValue.of(text) for name, text in wanted.items()}
    inputs: Mapping[str, str] = {}
    if any(each is not None and each.job is None for each in values.values()):
        inputs = values_of_inputs(storage.builds.pipeline_ir(upstream.id) or "{}", upstream.inputs)
    keys = {each.job for each in values.values() if each is not None}
    outputs: dict[str, Mapping[str, str]] = {}
    for job in storage.jobs.of_build(upstream.id):
        told = storage.told.outputs(job.id) if job.step_key in keys else None
        if told is not None:
            outputs[job.step_key] = told.variables
    given = {}
    for name, value in values.items():
        source = inputs if value is None or value.job is None else outputs.get(value.job, {})
        if value is not None and value.name in source:
            given[name] = source[value.name]
    return given
