"""One run of a proof: the tests on a fork of the disk before their job, and their outcomes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actors.forks.forks import DiskGone
from actors.forks.running import ForkRun, run
from actors.test_reports.junit import WORST_FIRST, CaseOutcome, NotReport, read_confined
from actors.test_reports.results import LARGEST_REPORT
from actors.test_reports.selecting import selection
from storage import WHOLE_JOB, ProofRun, TestName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from actors.forks.forks import Forks
    from actors.forks.running import RunOutcome
    from actors.test_reports.junit import TestCase
    from storage import Build, Job, Proof, Storage

RUN_VARIABLE = "CI_TEST_RUN"
"""The variable with the number of the run, from 1, by which a test may seed what it draws."""

_MOST_REPORTS = 200
_NOT_RUN = {126, 127}
_SHOWN = 300


def prove_once(
    forks: Forks, storage: Storage, proof: Proof, number: int, gone: Callable[[], bool]
) -> tuple[ProofRun, Mapping[TestName, bool]]:
    """Run the tests of a proof once; return the run, and whether each test passed that it tells of.

    Raises as `actors.forks.run` does.
    """
    job = storage.jobs.get(proof.job_id)
    build = None if job is None else storage.builds.get(job.build_id)
    if job is None or build is None:
        raise DiskGone("the build was deleted")
    tests = [TestName(each.suite, each.name) for each in storage.proofs.tests(proof.id) if not each.is_whole_job]
    paths = report_paths(storage, job) if tests else ()
    own = job.command if proof.command is None else ""
    chosen = selection(own, job.env, tests, None)
    wanted = ForkRun(
        command=chosen.command if proof.command is None else proof.command,
        env={**chosen.env, RUN_VARIABLE: str(number)},
        before=True,
        seconds=proof.seconds,
        budget_id=proof.budget_id,
        reports=paths,
    )
    done = run(forks, build, job, wanted, opened_by=proof.opener, gone=gone)
    passed = verdicts(tests or [WHOLE_JOB], done, list(_cases(storage, build, done)), exit_counts=proof.exit_counts)
    return ProofRun(number, done.exit_code, int(done.seconds * 1000), None if passed else _trouble(tests, done)), passed


def report_paths(storage: Storage, job: Job) -> tuple[str, ...]:
    """Return the paths of the files of a job that may be reports of tests."""
    kept = storage.artifacts.of_job(job.id)
    found = (each.path for each in kept if each.path.endswith(".xml") and each.file_size <= LARGEST_REPORT)
    return tuple(found)[:_MOST_REPORTS]


def verdicts(
    tests: Sequence[TestName], done: RunOutcome, cases: Iterable[TestCase], *, exit_counts: bool
) -> dict[TestName, bool]:
    """Return of each test whether it passed in a run, without those that it tells nothing of. Pure.

    The reports say it, of several cases of a test the worst. If ``exit_counts`` and there is no report, the exit code
    does, of a single test or the whole job.
    """
    if exit_counts and not done.reports and len(tests) == 1:
        return {} if done.timed_out or done.exit_code in _NOT_RUN else {tests[0]: done.exit_code == 0}
    asked, found = set(tests), dict[TestName, CaseOutcome]()
    for case in cases:
        name = TestName(case.suite, case.name)
        if name in asked:
            found[name] = min(found.get(name, case.outcome), case.outcome, key=WORST_FIRST.index)
    return {
        name: outcome is CaseOutcome.PASSED for name, outcome in found.items() if outcome is not CaseOutcome.SKIPPED
    }


def _cases(storage: Storage, build: Build, done: RunOutcome) -> Iterable[TestCase]:
    for content in done.reports.values():
        with os.fdopen(os.memfd_create("report"), "wb") as file:
            file.write(content)
            file.flush()
            path = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
            with suppress(NotReport):
                yield from read_confined(storage.confinement, build.organization_slug, path).cases


def _trouble(tests: list[TestName], done: RunOutcome) -> str:
    """Return why a run tells nothing, with the end of its output."""
    if done.timed_out:
        return "its time was up"
    if not tests:
        return f"its command could not be run: {_end(done)}"
    why = "no report of it has the tests" if done.reports else "it wrote no report"
    return f"{why}, and its exit code is {done.exit_code}: {_end(done)}"


def _end(done: RunOutcome) -> str:
    return done.output.strip()[-_SHOWN:] or "it printed nothing"
