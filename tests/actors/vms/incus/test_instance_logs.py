"""Errors in the logs of instances that did not start."""

from __future__ import annotations

from actors.vms.incus.instances import errors_in

_AT = "lxc ci_ci-vm-1 20261127052559.434"
_HOOK_FAILED = f"""\
{_AT} WARN     cgfsng - ../src/lxc/cgroups/cgfsng.c:fchowmodat:1910 - No such file or directory - Failed to fchownat(34)
{_AT} ERROR    utils - ../src/lxc/utils.c:run_buffer:571 - Script exited with status 126
{_AT} ERROR    conf - ../src/lxc/conf.c:lxc_setup:3948 - Failed to run mount hooks
{_AT} WARN     start - ../src/lxc/start.c:lxc_abort:1037 - No such process - Failed to send SIGKILL via pidfd 35
"""
_NO_TERMINAL = (
    "../src/lxc/conf.c:lxc_setup_console:1934 - No space left on device"
    " - Failed to allocate console from container's devpts instance"
)


def test_the_errors_are_shown_with_where_they_arose():
    assert errors_in(_HOOK_FAILED) == (
        "../src/lxc/utils.c:run_buffer:571 - Script exited with status 126\n"
        "../src/lxc/conf.c:lxc_setup:3948 - Failed to run mount hooks"
    )


def test_where_no_terminal_was_left_it_says_what_to_raise():
    advice, error = errors_in(f"{_AT} ERROR    conf - {_NO_TERMINAL}\n").splitlines()
    assert "raise kernel.pty.max" in advice
    assert error == _NO_TERMINAL


def test_the_first_errors_of_many_are_shown():
    """They have the cause; the others follow from it."""
    log = "".join(f"{_AT} ERROR    part - file.c:f:1 - error {number}\n" for number in range(100))
    assert errors_in(log).splitlines() == [f"file.c:f:1 - error {number}" for number in range(8)]


def test_a_log_of_another_form_has_no_errors():
    assert errors_in("") == ""
    assert errors_in("ERROR\n\nno such\nlxc ci-vm-1 20261127052559.434 ERROR\n") == ""
