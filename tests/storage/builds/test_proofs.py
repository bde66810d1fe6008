from __future__ import annotations

import pytest

from storage import NewBuild, NewProof, ProofRun, ProofState, Storage, TestName, TooManyProofs
from tests.records import new_job, new_pipeline

A = TestName("unit", "a")
NEW = NewProof(2, 60, 3600, (A,), "ann")


def test_a_run_counts_once_and_the_last_ends_its_proof(storage: Storage):
    pipeline = new_pipeline(storage)
    build = storage.builds.create(pipeline, NewBuild("main", "c0ffee"), [new_job()])
    (job,) = storage.jobs.of_build(build.id)
    proof = storage.proofs.add(build, job, NEW)
    for _ in range(2):
        storage.proofs.record(proof, ProofRun(1, 0, 10, None), {A: True})
    assert [each.id for each in storage.proofs.open()] == [proof.id]
    storage.proofs.record(proof, ProofRun(2, 1, 10, None), {A: False})
    (counted,) = storage.proofs.tests(proof.id)
    assert (counted.passed, counted.failed, storage.proofs.open()) == (1, 1, [])
    assert not storage.proofs.end(proof.id, ProofState.CANCELED, "late")
    (past,) = storage.proofs.of_test(pipeline.id, "a", None, 10)
    assert (past.test, past.build_number, storage.proofs.of_test(pipeline.id, "a", "other", 10)) == (counted, 1, [])
    for _ in range(10):
        storage.proofs.add(build, job, NEW)
    with pytest.raises(TooManyProofs):
        storage.proofs.add(build, job, NEW)
