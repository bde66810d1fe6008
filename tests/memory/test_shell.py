"""The shell of guests in memory refuses what it does not know, and runs nothing on the host."""

from __future__ import annotations

import pytest

from tests.memory.shell import Shell


@pytest.mark.parametrize(
    "script",
    [
        "rm -rf /",
        "kill -9 -1",
        "$(reboot)",
        "`reboot`",
        "reboot &",
        "echo a | sh",
        "cat < /etc/passwd",
        "echo a >> file",
        "echo a > file > other",
        "for i in 1 2; do echo $i; done",
        "test -d /",
        "echo 'open",
    ],
)
def test_what_the_shell_does_not_know_ends_the_script(script: str):
    written: list[bytes] = []
    files = {"/etc/passwd": b"root\n"}
    assert Shell(files, written.append).run(f"echo first\n{script}\necho last") == 127
    output = b"".join(written)
    assert b"this guest does not know" in output
    assert b"last\n" not in output.splitlines(keepends=True)
    assert files == {"/etc/passwd": b"root\n"}


def test_a_file_of_the_host_is_no_file_of_the_guest():
    written: list[bytes] = []
    assert Shell({}, written.append).run("test -e /etc/passwd || cat /etc/passwd") == 1
    assert written == [b"cat: /etc/passwd: No such file or directory\n"]
