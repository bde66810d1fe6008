"""The part of `ci-daemon doctor` for the members of a real engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from actors.vms.incus import access_of, inspect_member
from ci_daemon.config import Config
from ci_daemon.doctor.providers import faults, members
from ci_daemon.engine import prepare_engine
from storage import SystemClock
from tests.fleet.fleet import POOL, Fleet


def test_each_member_is_looked_at_and_a_cut_off_one_is_named(cluster: Fleet, tmp_path: Path):
    with cluster.switch.entered():
        config = prepared(tmp_path, cluster)
        found = list(members(tmp_path, config))
        assert [check.name for check in found if check.ok] == ["member m1", "member m2", "member m3"], found
        assert all("btrfs" in check.detail and "certificate until" in check.detail for check in found)
        cluster.members[2].cut()
        found = list(members(tmp_path, config))
    assert [check.name for check in found if not check.ok] == [f"member {cluster.members[2].url}"], found


def test_faults_of_a_member_are_told_from_its_report(lone: Fleet, tmp_path: Path):
    with lone.switch.entered():
        config = prepared(tmp_path, lone)
        access = access_of(tmp_path / "incus", config.incus)
        report = inspect_member(access, lone.members[0].url, "ci", POOL)
    now = SystemClock().now()
    assert list(faults(report, config.incus, now)) == []
    assert report.seconds_ahead is not None
    assert abs(report.seconds_ahead) < 5
    wrong = replace(
        report, driver="dir", free_bytes=1, certificate_ends=now + timedelta(days=1), seconds_ahead=-60.0,
        missing_limits=("Couldn't find the CGroup hugetlb controller", "Couldn't find the CGroup memory controller"),
        makes_machines=False,
    )  # fmt: skip
    said = [
        detail.partition(":")[0] for detail, _ in faults(wrong, replace(config.incus, instances="virtual-machine"), now)
    ]
    assert said == [
        "it makes no virtual machines",
        "its pool fast (dir) copies whole disks",
        "its pool fast has 0.0 of 20.0 GiB free",
        f"its certificate ends on {wrong.certificate_ends:%Y-%m-%d}",
        "its clock is 60 s behind this host's",
        "limits may not hold (Couldn't find the CGroup memory controller)",
    ]


def test_missing_control_groups_are_those_that_the_engine_lists(lone: Fleet, tmp_path: Path):
    config = prepared(tmp_path, lone)
    report = inspect_member(access_of(tmp_path / "incus", config.incus), None, "ci", POOL)
    listed = lone.members[0].run("incus warning list --format csv -c t").splitlines()
    assert report.missing_limits == tuple(sorted({each for each in listed if "CGroup" in each}))


def test_an_engine_that_is_away_fails_the_check_at_its_socket(lone: Fleet, tmp_path: Path):
    config = prepared(tmp_path, lone)
    config = replace(config, incus=replace(config.incus, addresses=()))
    assert [check.name for check in members(tmp_path, config)] != []
    lone.members[0].kill_engine()
    (check,) = members(tmp_path, config)
    assert (check.name, check.ok) == ("member here", False)
    assert "is it running?" in check.detail


def prepared(state: Path, fleet: Fleet) -> Config:
    """Prepare the engine by its first member's socket; return a configuration with all addresses."""
    config = Config()
    incus = replace(config.incus, socket=fleet.members[0].socket, storage=POOL)
    config = replace(config, pool=replace(config.pool, provider="incus"), incus=incus)
    addresses = prepare_engine(state, config, None, SystemClock().now()).addresses
    return replace(config, incus=replace(incus, addresses=addresses))
