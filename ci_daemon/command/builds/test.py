"""`ci-daemon test`: how often tests pass, and which may fail, on the box or of a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from api.operations import proofs, quarantine
from ci_daemon.command.builds.shell import job_name, names_of_job
from ci_daemon.command.support.body_options import body_options, given
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.names import BuildName, PipelineName
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.text import printable
from storage import ProofState, document_of

if TYPE_CHECKING:
    from api.doors import Door

_LOOK_SECONDS = 0.5
_COLUMNS = ("id", "step_key", "test", "state", "result")


@click.group(cls=Group)
def test() -> None:
    """Tests of jobs: how often they pass, and which may fail for a while."""


@test.command(cls=SharedCommand)
@click.argument("job", metavar="ORG/PIPELINE/NUMBER/STEP")
@click.argument("tests", metavar="[TEST]...", nargs=-1)
@body_options(proofs.ProveTestsRequest, "command", "times", "timeout_seconds", "limit_seconds", "max_cents")
@click.option("--no-wait", is_flag=True, help="Begin, and do not wait for the runs.")
@pass_session
def prove(session: Session, /, *, job: str, tests: tuple[str, ...], no_wait: bool, **terms: object) -> None:
    """Run tests of a job again and again from the disk before its command, and count how often they pass.

    Without TEST they are those that failed in the job, or the whole job if it keeps no report of its tests. TEST is
    SUITE::NAME or NAME, as `build tests` shows them. Each run has a VM and a fork of its own; they begin when no job
    waits for a VM. Ctrl-C stops waiting; the runs go on.
    """
    name, step = job_name(job)
    body = given(terms) | ({"tests": list(tests)} if tests else {})
    with session.building_door() as door:
        names = names_of_job(door, name, step)
        proof = door.perform(proofs.prove_tests, names, body)
        if not no_wait:
            proof = _end_of(door, name, proof)
    session.answer(document_of(proof), "\n".join(_lines(proof)))
    if proof.state is ProofState.STOPPED:
        raise Failure(f"it ended after {proof.runs} of {proof.times} runs: {printable(proof.reason or '')}")


@test.command(name="proofs", cls=SharedCommand, reads=True)
@click.argument("name", metavar="ORG/PIPELINE[/NUMBER]")
@click.argument("tested", metavar="[TEST]", required=False)
@click.option("--suite", help="Only of the test of this suite.")
@pass_session
def list_proofs(session: Session, *, name: str, tested: str | None, suite: str | None) -> None:
    """List the proofs of a build, or those of one TEST in all builds of a pipeline, newest first."""
    with session.door() as door:
        if tested is None:
            build = BuildName.parse(name)
            documents = [row for each in door.rows(proofs.list_build_proofs, build.names) for row in _rows(each)]
        else:
            query = {"name": tested} | ({"suite": suite} if suite else {})
            found = door.rows(proofs.list_test_proofs, PipelineName.parse(name).names, query=query)
            documents = [_past(each) for each in found]
    columns = _COLUMNS if tested is None else ("build_number", "commit", "step_key", "test", "result", "created_at")
    session.table(documents, columns, f"{name} has no such proofs")


@test.command(cls=SharedCommand)
@click.argument("pipeline", metavar="ORG/PIPELINE")
@click.argument("proof", metavar="ID")
@pass_session
def cancel(session: Session, *, pipeline: str, proof: str) -> None:
    """Cancel the proof ID, as `test proofs` shows it; what its runs told so far stays."""
    with session.building_door() as door:
        ended = door.perform(proofs.cancel_proof, {**PipelineName.parse(pipeline).names, "proof": proof})
    session.answer(document_of(ended), f"proof {proof} is {ended.state}")


@test.command(name="quarantine", cls=SharedCommand)
@click.argument("pipeline", metavar="ORG/PIPELINE")
@click.argument("name", metavar="TEST")
@body_options(quarantine.QuarantineTestRequest, "suite", "step", "days", "owner", "reason")
@pass_session
def quarantine_test(session: Session, /, *, pipeline: str, name: str, **terms: object) -> None:
    """Let TEST fail without failing builds, for some days; its owner is to mend it meanwhile.

    TEST is the name in a report, of --suite, or SUITE::NAME, as `build tests` shows them. A job that failed by such
    tests alone is a soft failure. Its log says so, or why it is not certain, which is a failure as before.
    """
    body = given(terms)
    if "suite" not in body and "::" in name:
        body["suite"], _, name = name.partition("::")
    with session.door() as door:
        names = PipelineName.parse(pipeline).names
        made = door.perform(quarantine.quarantine_test, names, {**body, "name": name})
    session.answer(document_of(made), f"{printable(name)} is in quarantine until {made.expires_at:%Y-%m-%d}")


@test.command(cls=SharedCommand, reads=True)
@click.argument("pipeline", metavar="ORG/PIPELINE")
@pass_session
def quarantined(session: Session, *, pipeline: str) -> None:
    """List the tests of a pipeline that are in quarantine, and those that were."""
    with session.door() as door:
        found = door.rows(quarantine.list_quarantine, PipelineName.parse(pipeline).names)
        documents = [document_of(each) for each in found]
    columns = ("id", "suite", "name", "step", "in_force", "owner", "expires_at", "reason")
    session.table(documents, columns, f"no test of {pipeline} is in quarantine")


@test.command(cls=SharedCommand)
@click.argument("pipeline", metavar="ORG/PIPELINE")
@click.argument("quarantined_id", metavar="ID")
@pass_session
def release(session: Session, *, pipeline: str, quarantined_id: str) -> None:
    """End the quarantine ID, as `test quarantined` shows it: the test fails builds again."""
    with session.door() as door:
        door.perform(quarantine.release_test, {**PipelineName.parse(pipeline).names, "quarantined": quarantined_id})
    session.answer({"released": quarantined_id}, f"the quarantine {quarantined_id} has ended")


def _end_of(door: Door, name: BuildName, proof: proofs.ProofRecord) -> proofs.ProofRecord:
    """Wait for the end of a proof, and say how far it is when that changes."""
    names, told = {"org": name.org, "pipeline": name.pipeline, "proof": proof.uuid}, -1
    try:
        while proof.state is ProofState.RUNNING:
            if proof.runs != told:
                told = proof.runs
                click.echo(f"{proof.runs} of {proof.times} runs have ended", err=True)
            time.sleep(_LOOK_SECONDS)
            proof = door.perform(proofs.get_proof, names)
    except KeyboardInterrupt:
        click.echo(
            f"the runs go on; `ci-daemon test cancel {name.org}/{name.pipeline} {proof.uuid}` ends them", err=True
        )
        raise click.Abort from None
    return proof


def _lines(proof: proofs.ProofRecord) -> list[str]:
    lines = [f"{_title(each)}: {each.words}" for each in proof.tests]
    if proof.lacking:
        lines.append(proof.lacking)
    lines += [f"some runs tell nothing: {printable(each)}" for each in proof.troubles]
    if proof.state is ProofState.RUNNING:
        lines.append(f"{proof.runs} of {proof.times} runs have ended; proof {proof.uuid}")
    return lines


def _title(test: proofs.ProvedTestRecord) -> str:
    return printable(f"{test.suite}::{test.name}" if test.suite else test.name) or "the job"


def _rows(proof: proofs.ProofRecord) -> list[dict[str, Any]]:
    document = document_of(proof)
    return [{**document, "test": _title(each), "result": each.words} for each in proof.tests]


def _past(past: proofs.PastProofRecord) -> dict[str, Any]:
    return {**document_of(past), "test": _title(past.test), "result": past.test.words}
