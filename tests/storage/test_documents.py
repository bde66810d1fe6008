"""Records as documents, and back."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from storage import document_of, immutable, record_of, shown_as
from storage.data_classes import hidden


@immutable
class Inner:
    """A record in another one."""

    uuid: str
    at: datetime


@immutable
class Outer:
    """A record with every kind of field."""

    id: int
    uuid: str = shown_as("uuid")
    inner: Inner
    others: tuple[Inner, ...]
    day: date
    inside: int = hidden()
    name: str | None


INNER = Inner("i", datetime(2026, 1, 2, tzinfo=UTC))
RECORD = Outer(1, "u", INNER, (INNER,), date(2026, 1, 3), 7, None)
SHOWN = {"id": "i", "at": "2026-01-02T00:00:00.000000Z"}
DOCUMENT = {"uuid": "u", "inner": SHOWN, "others": [SHOWN], "day": "2026-01-03", "name": None}


def test_a_document_has_the_shown_fields_by_their_names():
    assert document_of(RECORD) == DOCUMENT


def test_a_record_of_a_document_has_no_hidden_field():
    made = record_of(Outer, {**DOCUMENT, "newer": 1})
    assert (made.uuid, made.inner, made.others, made.day) == ("u", INNER, (INNER,), RECORD.day)
    assert not hasattr(made, "inside")


@pytest.mark.parametrize("wrong", [None, {}, {**DOCUMENT, "uuid": 1}, {**DOCUMENT, "inner": "i"}])
def test_another_document_is_refused(wrong: object):
    with pytest.raises(ValueError, match="expected"):
        record_of(Outer, wrong)
