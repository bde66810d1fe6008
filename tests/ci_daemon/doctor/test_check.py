from __future__ import annotations

from ci_daemon.doctor.check import failed_from_message


def test_a_message_that_ends_in_a_command_has_a_fix():
    check = failed_from_message("sub-ids", "ada has no range: run `sudo usermod --add-subuids 1-2 ada`")
    assert (check.detail, check.fix) == ("ada has no range", "usermod --add-subuids 1-2 ada")
    assert check.command(as_root=False) == "sudo usermod --add-subuids 1-2 ada"
    assert check.command(as_root=True) == "usermod --add-subuids 1-2 ada"


def test_a_message_without_a_command_has_no_fix():
    check = failed_from_message("sub-ids", "user id 7 has no entry in /etc/passwd")
    assert (check.ok, check.fix, check.fixable) == (False, None, False)
