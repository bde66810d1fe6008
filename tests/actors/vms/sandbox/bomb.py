"""A program that makes as many processes as it may."""

from __future__ import annotations

from textwrap import indent

_BOMB = """\
children = 0
try:
    while children < {most}:
        if os.fork() == 0:
            os.closerange(0, 3)
            time.sleep(60)
            os._exit(0)
        children += 1
except OSError:
    pass
print(children, flush=True)
"""


def bomb(most: int) -> str:
    """Return a Python program that forks up to ``most`` children and prints how many it could."""
    return f"import os, time\n{_BOMB.format(most=most)}"


def bombs(most: int, users: int) -> str:
    """Return a Python program that does as `bomb` does once for each of several users."""
    each = indent(f"os.setuid(uid)\n{_BOMB.format(most=most)}os._exit(0)", " " * 8)
    begun = f"import os, time\nfor uid in range(1, {users + 1}):\n    if os.fork() == 0:\n{each}\n"
    return f"{begun}for _ in range({users}):\n    os.wait()\n"
