"""Proofs of flaky tests: their tests and runs."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow, JobRow
from storage.models.pipelines import PipelineRow
from storage.models.row import Row
from storage.records.proofs import Proof, ProofRun, ProvedTest


class ProofRow(Row, table="proofs", record=Proof):
    """A proof; its organization, pipeline and build repeat those of its job."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    pipeline = peewee.ForeignKeyField(PipelineRow)
    build = peewee.ForeignKeyField(BuildRow)
    job = peewee.ForeignKeyField(JobRow)


class ProvedTestRow(Row, table="proved_tests", record=ProvedTest):
    """A test of a proof, with its counts."""

    proof = peewee.ForeignKeyField(ProofRow)


class ProofRunRow(Row, table="proof_runs", record=ProofRun):
    """A run of a proof that has ended."""

    proof = peewee.ForeignKeyField(ProofRow)
