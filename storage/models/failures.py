"""Findings about failures: searches for culprits, tests in quarantine, and proofs of flaky tests."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow, JobRow
from storage.models.pipelines import PipelineRow
from storage.models.row import Row
from storage.records.culprits import CulpritSearch
from storage.records.proofs import Proof, ProofRun, ProvedTest
from storage.records.quarantine import ExcusedTest, QuarantinedTest


class CulpritSearchRow(Row, table="culprit_searches", record=CulpritSearch):
    """A search for the commit that broke a job of a default branch."""

    pipeline = peewee.ForeignKeyField(PipelineRow)
    build = peewee.ForeignKeyField(BuildRow)


class QuarantinedTestRow(Row, table="quarantined_tests", record=QuarantinedTest):
    """A test that is, or was, in quarantine."""

    pipeline = peewee.ForeignKeyField(PipelineRow)


class ExcusedTestRow(Row, table="excused_tests", record=ExcusedTest):
    """A test of a job that failed in quarantine."""

    job = peewee.ForeignKeyField(JobRow)
    build = peewee.ForeignKeyField(BuildRow)


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
