"""The supervisors of builds that run, one for each build, and the throttle of those without VMs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.messages import Granted

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.addresses import Address
    from actors.messages import BuildMessage, ForBuild, Idle


_MAX_RUNNING = 16
_RESTARTS = 3


class SupervisorThrottle:
    """At most 16 builds with a supervisor that only does housekeeping, and a queue of others.

    So a cancel of a thousand waiting builds, or a start of the service with as many, takes no more threads and file
    handles than that of a few (engine.md, "Actors"). For root's thread only.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, list[ForBuild]] = {}
        self._started: set[int] = set()

    def __contains__(self, build_id: object) -> bool:
        """Tell whether a build waits for its supervisor."""
        return build_id in self._waiting

    def join(self, build_id: int, *messages: ForBuild) -> None:
        """Queue a build, with messages to its supervisor; duplicates are dropped."""
        queued = self._waiting.setdefault(build_id, [])
        queued += (message for message in messages if message not in queued)

    def next(self) -> int | None:
        """Return the build whose supervisor may start now; None if enough run, or none waits."""
        return next(iter(self._waiting), None) if len(self._started) < _MAX_RUNNING else None

    def start(self, build_id: int) -> list[ForBuild]:
        """Count a supervisor that starts, until `leave`; return the messages to it."""
        self._started.add(build_id)
        return self._waiting.pop(build_id)

    def leave(self, build_id: int) -> None:
        """Count a supervisor no longer, because it is done, or because a job of its build runs."""
        self._started.discard(build_id)


@dataclass(slots=True)
class _Child:
    """A running supervisor, and how many messages it was sent."""

    address: Address[BuildMessage]
    sent: int = 0


class BuildSupervisors:
    """Starts supervisors when they are needed, and stops those that are idle. For root's thread only.

    A build whose jobs all wait needs none: it is rows in the storage until a lease or a cancel comes. A supervisor with
    nothing running says so and is stopped, unless a message to it is still on its way. At most 16 run only for
    housekeeping (`SupervisorThrottle`).
    """

    def __init__(self, spawn: Callable[[int], Address[BuildMessage]]) -> None:
        self._spawn = spawn
        self._children: dict[int, _Child] = {}
        self._throttle = SupervisorThrottle()
        self._dismissed: dict[str, Address[BuildMessage]] = {}
        self._deaths: Counter[int] = Counter()

    def start(self, build_id: int) -> None:
        """Start the supervisor of a build, in place of an earlier one."""
        self._children[build_id] = _Child(self._spawn(build_id))

    def start_later(self, build_id: int, *messages: ForBuild) -> None:
        """Start a supervisor for a build of which nothing runs, when the throttle lets it."""
        if build_id not in self._children:
            self._throttle.join(build_id, *messages)
            self.start_throttled()

    def start_throttled(self) -> None:
        """Start as many of the waiting supervisors as the throttle lets."""
        while (build_id := self._throttle.next()) is not None:
            missing = build_id not in self._children
            if missing:
                self.start(build_id)
            for message in self._throttle.start(build_id):
                self._send(message)
            if not missing:
                self._throttle.leave(build_id)

    def is_waiting(self, build_id: int) -> bool:
        """Tell whether a build waits for its supervisor."""
        return build_id in self._throttle

    def send(self, message: ForBuild) -> None:
        """Send a message to its build's supervisor: started at once for a lease, throttled for all else."""
        build_id = message.build_id
        if isinstance(message, Granted) and build_id not in self._children:
            self.start(build_id)
        if build_id not in self._children:
            self.start_later(build_id, message)
            return
        self._send(message)
        if isinstance(message, Granted):
            self._leave_throttle(build_id)

    def dismiss(self, idle: Idle) -> bool:
        """Stop an idle supervisor; tell whether it was.

        It runs on if the message is a predecessor's, or if a message to the supervisor is still on its way.
        """
        child = self._children.get(idle.build_id)
        if child is None or child.address.urn != idle.urn or child.sent != idle.received:
            return False
        del self._children[idle.build_id]
        self._dismissed[idle.urn] = child.address
        child.address.stop(block=False)
        self._leave_throttle(idle.build_id)
        if idle.finished:
            del self._deaths[idle.build_id]
        return True

    def forget_dismissed(self, urn: str) -> bool:
        """Forget a supervisor that has ended; False if it was not dismissed."""
        return self._dismissed.pop(urn, None) is not None

    def build_of(self, urn: str) -> int | None:
        """Return the build of a running supervisor; None if there is no such supervisor."""
        return next((build_id for build_id, child in self._children.items() if child.address.urn == urn), None)

    def restart(self, build_id: int) -> bool:
        """Start a successor of a supervisor that died; False, and none, after too many deaths."""
        self._deaths[build_id] += 1
        if self._deaths[build_id] <= _RESTARTS:
            self.start(build_id)
            return True
        del self._children[build_id]
        self._leave_throttle(build_id)
        return False

    def stop(self) -> None:
        """Stop all of them."""
        for address in (*(child.address for child in self._children.values()), *self._dismissed.values()):
            address.stop()

    def _send(self, message: ForBuild) -> None:
        child = self._children[message.build_id]
        child.sent += 1
        child.address.post(message)

    def _leave_throttle(self, build_id: int) -> None:
        self._throttle.leave(build_id)
        self.start_throttled()
