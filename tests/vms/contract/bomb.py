"""A program that makes as many processes as it may."""

from __future__ import annotations

from textwrap import indent

_BOMB = """\
children = 0
try:
    while children < {most}:
        if os.fork() == 0:
            os.closerange(0, 3)
            signal.pause()
            os._exit(0)
        children += 1
except OSError:
    pass
print(children, flush=True)
"""


def bomb(most: int) -> str:
    """Return a Python program that forks up to ``most`` children and prints how many it could."""
    return f"import os, signal\n{_BOMB.format(most=most)}"


def bombs(most: int, users: int) -> str:
    """Return a Python program that does as `bomb` does for several users at once."""
    await_all = "os.close(go)\nos.read(ready, 1)\n"
    each = indent(f"{await_all}os.setuid(uid)\n{_BOMB.format(most=most)}os._exit(0)", " " * 8)
    prepared = "import os, signal\nready, go = os.pipe()\n"
    forked = f"for uid in range(1, {users + 1}):\n    if os.fork() == 0:\n{each}\n"
    return f"{prepared}{forked}os.close(go)\nfor _ in range({users}):\n    os.wait()\n"
