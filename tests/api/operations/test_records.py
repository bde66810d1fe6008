"""The records of builds and jobs: what the API shows, and what a command reads of it."""

from __future__ import annotations

import json

import pytest

from api.models import model_of
from api.operations import BuildRecord, JobRecord
from storage import document_of, record_of
from tests.shown import START, shown_build, shown_job

RECORDS = (
    shown_build(warnings=("an unknown key",), rebuild_of=2, finished_at=START),
    shown_job("a", depends_on=("one", "two"), retry_policy={"limit": 2, "exit_codes": [1]}, image="debian:12"),
)


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_read_back_from_its_document(record: BuildRecord | JobRecord):
    assert record_of(type(record), json.loads(json.dumps(document_of(record)))) == record


@pytest.mark.parametrize("record", RECORDS)
def test_the_api_shows_the_document_of_a_record(record: BuildRecord | JobRecord):
    kind = type(record)
    assert model_of(kind).showing(record).model_dump(mode="json") == document_of(record)


@pytest.mark.parametrize("field", [("depends_on", "one"), ("retry_policy", [2]), ("attempt", "1"), ("state", "gone")])
def test_a_document_with_another_type_is_no_record(field: tuple[str, object]):
    name, value = field
    with pytest.raises(ValueError, match="gone" if name == "state" else f"{name}: expected"):
        record_of(JobRecord, {**document_of(shown_job("a")), name: value})
