"""The fleets themselves: engines run, members fail and return as told, and nothing is left behind."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.fleet.engine import INCUS, LXD, Engine
from tests.fleet.fleet import POOL, Fleet
from tests.fleet.member import Member
from tests.fleet.tree import FOLDER
from tests.waiting import until

_KILLED = """
from tests.fleet.engine import INCUS
from tests.fleet.fleet import Fleet
with Fleet(INCUS) as fleet:
    print(fleet.members[0].folder.parent, fleet.members[0].pid, flush=True)
    input()
"""


@pytest.mark.parametrize("engine", [INCUS, LXD], ids=lambda engine: engine.name)
def test_a_lone_member_serves_its_api_and_leaves_nothing(engine: Engine) -> None:
    with Fleet(engine) as fleet:
        member = fleet.members[0]
        assert _server(fleet, member)["auth"] == "trusted"
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(member.socket))) as client:
            pool = client.get(f"http://engine/1.0/storage-pools/{POOL}").json()["metadata"]
        assert pool["driver"] == "btrfs"
        folder, groups = member.folder.parent, member.control_groups
        assert str(folder) in _loop_devices()
    assert not folder.exists()
    assert not any(group.exists() for group in groups)
    assert str(folder) not in _loop_devices()


def test_a_member_keeps_its_files_when_its_power_is_cut(lone: Fleet) -> None:
    member = lone.members[0]
    member.run("incus profile create mark")
    member.kill()
    assert not member.reachable()
    member.start()
    assert "mark" in member.run("incus profile list --format csv")


def test_a_cluster_of_three_survives_any_one_member(cluster: Fleet) -> None:
    leader = cluster.leader(cluster.members[0])
    asked = cluster.first(but=leader)
    leader.kill()
    until(lambda: _statuses(asked).get(leader.name) == "OFFLINE", "the loss of the leader")
    leader.start()
    until(lambda: set(_statuses(asked).values()) == {"ONLINE"}, "the leader's return")


def test_a_member_that_is_cut_off_is_offline_until_mended(cluster: Fleet) -> None:
    asked, lost = cluster.members[:2]
    lost.cut()
    until(lambda: _statuses(asked)[lost.name] == "OFFLINE", "the loss of a member")
    lost.mend()
    until(lambda: _statuses(asked)[lost.name] == "ONLINE", "the member's return")
    cluster.evacuate(lost, asked)
    assert _statuses(asked)[lost.name] == "EVACUATED"
    cluster.restore(lost, asked)
    assert _statuses(asked)[lost.name] == "ONLINE"


def test_what_a_killed_run_left_is_removed_by_the_next() -> None:
    killed = subprocess.Popen(
        [sys.executable, "-c", _KILLED], cwd=FOLDER.parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout
    folder, pid = killed.stdout.readline().split()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    until(lambda: not Path("/proc", pid).exists(), "the end of its member")
    groups = list(Path("/sys/fs/cgroup").glob(f"*/{Path(folder).name}-*"))
    assert groups
    with Fleet(INCUS):
        assert not Path(folder).exists()
        assert not any(group.exists() for group in groups)


def _statuses(asked: Member) -> dict[str, str]:
    """Return the members' states; none while their database elects a leader."""
    rows = json.loads(asked.run("incus cluster list --format json", check=False) or "[]")
    return {row["server_name"]: row["status"].upper() for row in rows}


def _server(fleet: Fleet, member: Member) -> dict[str, object]:
    context = ssl.create_default_context(cadata=member.certificate())
    context.check_hostname = False
    context.load_cert_chain(fleet.client.file, fleet.client.key)
    with fleet.switch.entered(), httpx.Client(verify=context) as client:
        found = client.get(f"{member.url}/1.0").json()["metadata"]
    assert isinstance(found, dict)
    return found


def _loop_devices() -> str:
    return subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True).stdout
