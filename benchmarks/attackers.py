"""Connections that attack a service, as a program of low priority.

It reads a plan as JSON from its standard input: ``address``, a host and a port; ``requests``, each a method, a path, a
body or null, and headers; ``connections``; and ``pause``, seconds after each answer. Each connection sends requests in
turns, from an address of its own of the loopback. When its input ends it prints the number of answers by status.
``{n}`` in a header or a body is another number each time.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
from collections import Counter
from contextlib import closing
from itertools import count
from typing import Any

_NICE = 10
_PATIENCE_SECONDS = 60.0


def main() -> None:
    """Send requests until the input ends."""
    os.nice(_NICE)
    plan = json.loads(sys.stdin.readline())
    answers, numbers, ended = Counter[str](), count(), threading.Event()
    for number in range(plan["connections"]):
        attack = threading.Thread(target=_attack, args=(plan, number, answers, numbers, ended), daemon=True)
        attack.start()
    sys.stdin.read()
    ended.set()
    print(json.dumps(answers), flush=True)
    os._exit(0)  # whatever a connection waits for


def _attack(
    plan: dict[str, Any], number: int, answers: Counter[str], numbers: count[int], ended: threading.Event
) -> None:
    host, port = plan["address"]
    source = (f"127.0.0.{2 + number}", 0)
    with closing(http.client.HTTPConnection(host, port, _PATIENCE_SECONDS, source)) as connection:
        turn = number
        while not ended.is_set():
            method, path, body, headers = plan["requests"][turn % len(plan["requests"])]
            turn += plan["connections"]
            unique = f"{os.getpid()}-{next(numbers)}"
            try:
                connection.request(
                    method,
                    path,
                    body and body.replace("{n}", unique),
                    {name: value.replace("{n}", unique) for name, value in headers.items()},
                )
                response = connection.getresponse()
                response.read()
                answers[str(response.status)] += 1
            except (OSError, http.client.HTTPException) as error:
                answers[type(error).__name__] += 1
                connection.close()
            ended.wait(plan["pause"])


if __name__ == "__main__":
    main()
