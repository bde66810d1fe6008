"""The machines themselves: systemd works, the network is reachable, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

from tests.system.machine import Machine


def test_a_machine_keeps_files_over_a_restart_and_leaves_none() -> None:
    with Machine() as machine:
        root, groups = machine.root, list(machine.groups())
        assert machine.run("systemctl is-system-running").stdout.strip() == "running"
        assert machine.run("getent hosts deb.debian.org").stdout
        machine.write("/etc/systemd/system/mark.service", "[Service]\nType=oneshot\nExecStart=touch /var/lib/mark\n")
        machine.run("systemctl daemon-reload; systemctl start mark; systemctl mask tmp.mount")
        first = machine.run("stat -c %i /proc/1/ns/pid").stdout
        machine.reboot()
        assert machine.run("stat -c %i /proc/1/ns/pid").stdout != first
        assert machine.run("test -e /var/lib/mark && systemctl is-system-running").stdout.strip() == "running"
        machine.poweroff()
    assert not root.exists()
    assert not any(group.exists() for group in groups)
    assert str(root) not in Path("/proc/self/mountinfo").read_text()
