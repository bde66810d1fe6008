from __future__ import annotations

from actors.scheduling.capacity import Capacity
from actors.scheduling.scheduler import FairShare, host_full, queue_order, schedule_next
from storage import Shape
from tests.actors.scheduling.queued import SMALL, job

ANY = Capacity()
LARGE = Shape(8, 1, 1)


def fair_share_with(*shapes: Shape, organization_id: int = 1) -> FairShare:
    fair_share = FairShare()
    for lease_id, shape in enumerate(shapes):
        fair_share.grant(lease_id, organization_id, shape, 0.0)
    return fair_share


def test_a_full_host_has_no_room_for_anybody():
    assert host_full(fair_share_with(SMALL), Capacity(vms=2)) is None
    decision = schedule_next([job(2)], fair_share_with(SMALL, SMALL), Capacity(vms=2), ANY, 0.0)
    assert decision.job is None
    assert decision.waiting.reason(1, 2) == "waiting for a VM: host is full (2 of 2)"


def test_a_large_job_whose_turn_it_is_is_not_overtaken():
    large, small = job(2, since=0, shape=LARGE), job(3, since=1)
    decision = schedule_next([small, large], fair_share_with(SMALL), Capacity(cpu=8), ANY, 0.0)
    assert decision.job is None
    assert decision.waiting.reason(large.job_id, 2) == "waiting for a VM: 1 of 8 vCPUs are taken, it needs 8"
    assert (
        decision.waiting.reason(small.job_id, 3)
        == "waiting for a VM: 1 of 8 vCPUs are taken, the job before it needs 8"
    )


def test_an_organization_at_its_cap_holds_up_nobody_else():
    mine, others = job(1), job(2, since=1)
    decision = schedule_next([mine, others], fair_share_with(SMALL), ANY, Capacity(vms=1), 0.0)
    assert decision.job == others
    assert "its organization has all 1 VMs" in decision.waiting.reason(mine.job_id, 1)


def test_jobs_follow_each_other_as_they_would_get_vms_one_by_one():
    mine, others = [job(1, since=each) for each in range(4)], [job(2, since=10 + each) for each in range(2)]
    queues = {1: mine, 2: others}
    assert queue_order(queues, FairShare(), 0.0, 10) == [mine[0], others[0], mine[1], others[1], mine[2], mine[3]]
    assert queue_order(queues, fair_share_with(SMALL, SMALL), 3600.0, 3) == [others[0], others[1], mine[0]]
    assert queue_order({}, FairShare(), 0.0, 10) == []
