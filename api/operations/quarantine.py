"""Tests in quarantine, whose failure alone does not fail a build."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import TYPE_CHECKING, Annotated, Self

from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, POST, Call, Found, created, done, operation
from api.operations.things import PIPELINE, ThisMembership, ThisPipeline
from storage import (
    LONGEST_QUARANTINE_DAYS,
    NewQuarantine,
    QuarantinedTest,
    TestName,
    TestQuarantined,
    TooManyQuarantined,
    Uuid,
    described,
    example,
    immutable,
    showing,
)

if TYPE_CHECKING:
    from api.fields import RequiredText, Text

_QUARANTINE = f"{PIPELINE}/quarantine"
_LISTED = 300


@immutable
class QuarantineTestRequest:
    """The body of ``POST …/quarantine``: a test by the exact names in a report, its owner and its end."""

    name: RequiredText = described("The name of the test, as a report has it.")
    days: int = described("The days after which it fails builds again.", bounds=(1, LONGEST_QUARANTINE_DAYS))
    suite: Text | None = described("Its suite or class, as a report has it.", default=None)
    step: Text | None = described("The key of the step that it is in; every step without.", default=None)
    owner: RequiredText | None = described(
        "The e-mail address of the member who is to mend it; by default the caller.", default=None, word="EMAIL"
    )
    reason: Text | None = described("Why it is in quarantine.", default=None)


@immutable
class QuarantinedTestRecord:
    """A test that is in quarantine, or was: it fails builds again from ``expires_at`` or ``ended_at`` on."""

    uuid: Uuid
    suite: str = example("tests.test_cart")
    name: str = example("test_total")
    step: str | None = example("unit")
    in_force: bool = example(value=True)
    owner: str = example("ada@example.org")
    reason: str = example("it depends on the time of day")
    created_by: str = example("ada@example.org")
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    ended_by: str | None

    @classmethod
    def of(cls, test: QuarantinedTest, now: datetime) -> Self:
        """Return the record of a stored test."""
        return showing(cls, test, step=test.step_key or None, in_force=test.holds_at(now))


QuarantineList = Annotated[list[QuarantinedTestRecord], "The tests that are in quarantine, or were, newest first."]


def _test(call: Call, pipeline: ThisPipeline, quarantined: str) -> QuarantinedTest:
    found = call.storage.quarantine.by_uuid(pipeline.id, quarantined)
    if found is None:
        raise ApiError.not_found("quarantined_test", quarantined)
    return found


ThisQuarantinedTest = Annotated[QuarantinedTest, Found(_test, ("quarantined_test_not_found",))]
"""The test ``{quarantined}`` that is, or was, in quarantine in a pipeline."""


@operation("listQuarantine", GET, _QUARANTINE, "The tests.")
def list_quarantine(call: Call, pipeline: ThisPipeline) -> QuarantineList:
    """List the tests of a pipeline that are in quarantine, and those that were, newest first: at most 300."""
    now = call.clock.now()
    return [QuarantinedTestRecord.of(each, now) for each in call.storage.quarantine.of_pipeline(pipeline.id, _LISTED)]


@operation(
    "quarantineTest",
    POST,
    _QUARANTINE,
    created("The test."),
    errors=("member_not_found", "test_quarantined", "too_many_quarantined"),
)
def quarantine_test(
    call: Call, member: ThisMembership, pipeline: ThisPipeline, body: QuarantineTestRequest
) -> QuarantinedTestRecord:
    """Put a test in quarantine: for some days its failure alone does not fail a build. Any member can.

    A job fails softly if its own report of pytest shows that tests in quarantine failed and no other, and it is certain
    that nothing else made it fail; its log says so, or why not.
    """
    owner = body.owner or call.actor
    user = call.storage.users.by_email(owner)
    if user is None or call.storage.organizations.role(member.organization.id, user.id) is None:
        raise ApiError("member_not_found", f'owner: "{owner}" is no member of {member.organization.slug}')
    new = NewQuarantine(
        TestName(body.suite or "", body.name), body.step or "", user.email, body.reason or "", body.days
    )
    try:
        made = call.storage.quarantine.add(pipeline.id, new, call.actor)
    except TestQuarantined as error:
        raise ApiError("test_quarantined", str(error)) from None
    except TooManyQuarantined as error:
        raise ApiError("too_many_quarantined", str(error)) from None
    return QuarantinedTestRecord.of(made, call.clock.now())


@operation("releaseTest", DELETE, f"{_QUARANTINE}/{{quarantined}}", done("The quarantine has ended."))
def release_test(call: Call, test: ThisQuarantinedTest) -> None:
    """End a quarantine before its time: the test fails builds again. Any member can."""
    call.storage.quarantine.end(test, call.actor)
