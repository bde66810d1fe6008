"""The services of an attempt: their images, their start, and their logs (engine.md, "Services")."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt.log import LogNotKept
from actors.builds.attempt.vm import Abandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.builds.attempt.log import AttemptLog
    from actors.builds.attempt.vm import VmConnection
    from actors.vms import Images
    from storage import Build, Job, LogWriter, Service, Storage

_log = logging.getLogger(__name__)

_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_ROOM_PAUSE = 1.0
_END_SECONDS = 30.0
"""The most time for the ends of services after that of the command: the VM kills them long before."""

_LAST_SECONDS = 1.0
"""The time for the last output of services of which one has failed."""


class JobServices:
    """The services of one attempt, started, and followed into logs of their own in threads of their own.

    One thread at a time calls it. The threads end with the services, and with the connection to their VM.
    """

    def __init__(
        self,
        storage: Storage,
        images: Images,
        build: Build,
        job: Job,
        connection: VmConnection,
        log: AttemptLog,
        on_output: Callable[[], None],
    ) -> None:
        self._storage = storage
        self._images = images
        self._build = build
        self._job = job
        self._connection = connection
        self._log = log
        self._on_output = on_output
        self._services = job.all_services
        self._followers: dict[str, _Follower] = {}

    def images(self, keep_free: int) -> Mapping[str, str]:
        """Return the images of the services' disks, which are pulled if they are missing. Blocks.

        Raises ImageNotFound, VmError and Abandoned.
        """
        found = {}
        for name, service in self._services.items():
            image = found[name] = self._resolved(service)
            if not self._images.use(image):
                self._log.notice(
                    f'the image "{vms.public_name(image)}" of the service {name} is not on this host yet: it is pulled'
                    " first"
                )
                login = vms.login_of(image)
                account = None if login is None else self._storage.registry_logins.opened(login)
                self._images.fetch(
                    image, keep_free=keep_free, progress=_ignore, check=self._connection.check, login=account
                )
        return found

    def digests(self) -> dict[str, str]:
        """Return the digests of the services' images that have one, by the services' names."""
        found = {name: self._images.digest(self._resolved(service)) for name, service in self._services.items()}
        return {name: digest for name, digest in found.items() if digest is not None}

    def _resolved(self, service: Service) -> str:
        """Return the image of a service in the store."""
        usable, build = self._storage.registry_logins.usable, self._build
        return self._images.resolve(service.image, lambda: usable(build.organization_id, build.id))

    def start(self, connection: vms.Connection, secrets: Mapping[str, str]) -> None:
        """Start the services and return when all are ready; ``secrets`` are those of the job.

        Raises ServiceFailed, VmError and ConnectionLost.
        """
        if not self._services:
            return
        specs = [self._spec(name, service, secrets) for name, service in self._services.items()]
        self.follow(connection)
        try:
            vms.start_services(connection, specs)
        except vms.ServiceFailed as error:
            self._await(_LAST_SECONDS)
            message = self._log.masked(str(error))
            self._log.notice(message)
            raise vms.ServiceFailed(message) from error
        self._log.notice(f"services are ready: {', '.join(self._services)}")

    def follow(self, connection: vms.Connection) -> None:
        """Follow the services whose end is not known, over this connection."""
        for name in self._services:
            follower = self._followers.get(name)
            if follower is None or (follower.end is None and not follower.is_alive()):
                follower = _Follower(name, connection, self._open, self._connection, self._log, self._on_output)
                self._followers[name] = follower
                follower.start()

    def failure(self) -> str | None:
        """Return why the job fails by its services, whose command has ended; None if it does not.

        Raises ConnectionLost if the ends of the services are not known because the connection is lost.
        """
        if not self._services:
            return None
        self._await(_END_SECONDS)
        for name, service in self._services.items():
            end = self._followers[name].end
            if end is None and not self._followers[name].connected:
                message = f"the connection to the service {name} is lost"
                raise vms.ConnectionLost(message)
            if end is not None and not end.stopped and service.fails_job:
                return f"the service {name} ended with exit code {end.exit_code} before the command"
        return None

    def _await(self, seconds: float) -> None:
        for follower in self._followers.values():
            follower.join(seconds)

    def _open(self, name: str) -> LogWriter:
        build, job = self._build, self._job
        return self._storage.logs.service_writer(build.uuid, job.uuid, name, job.attempt, self._log.masker)

    def _spec(self, name: str, service: Service, secrets: Mapping[str, str]) -> vms.ServiceSpec:
        image = self._resolved(service)
        program, share = self._images.program(image), self._log.share_of_output
        argv = (*program.entry_point, *(program.command if service.command is None else service.command))
        if not argv:
            message = (
                f'the image "{image}" of the service {name} has no program of its own: give the service a "command"'
            )
            raise vms.ServiceFailed(message)
        ready_port = service.ready_port
        if service.ready_command is None and service.ready_log is None and ready_port is None:
            ready_port = program.port
        return vms.ServiceSpec(
            name=name,
            argv=argv,
            env={
                **_ENVIRONMENT,
                **self._images.environment(image),
                **service.env,
                **{each: secrets[each] for each in service.secrets if each in secrets},
            },
            user=program.user,
            folder=program.folder,
            ready_command=service.ready_command,
            ready_port=ready_port,
            ready_log=service.ready_log,
            ready_seconds=service.ready_seconds,
            stop_signal=program.stop_signal,
            files=service.files,
            fails_job=service.fails_job,
            output_limit=share.head + share.tail + share.margin,
            output_tail=share.tail + share.margin,
        )


class _Follower(threading.Thread):
    """The thread that copies the output of one service into its log, and tells of its end in the job's.

    ``end`` is how it ended, None while it is not known.
    """

    def __init__(
        self,
        name: str,
        connection: vms.Connection,
        open_log: Callable[[str], LogWriter],
        vm: VmConnection,
        log: AttemptLog,
        on_output: Callable[[], None],
    ) -> None:
        super().__init__(name=f"service {name}", daemon=True)
        self.end: vms.ServiceEnd | None = None
        self._service = name
        self._connection = connection
        self._open_log = open_log
        self._vm = vm
        self._log = log
        self._on_output = on_output

    @property
    def connected(self) -> bool:
        """True if the connection that it was given is not lost."""
        return self._connection.alive

    def run(self) -> None:
        """Follow to the end of the service, or of the connection; a log without room waits for it."""
        try:
            while self.end is None:
                try:
                    self._follow()
                except OSError as error:
                    _log.warning("the log of the service %s waits for room: %s", self._service, error)
                    self._vm.pause(_ROOM_PAUSE)
            if not self.end.stopped:
                self._log.notice(f"the service {self._service} ended with exit code {self.end.exit_code}")
        except (vms.VmError, Abandoned, LogNotKept) as error:
            _log.info("the service %s is followed no more: %s", self._service, error)

    def _follow(self) -> None:
        with contextlib.ExitStack() as closing:
            writer = self._open_log(self._service)
            closing.callback(writer.close)
            output = vms.follow_service(self._connection, self._service, writer.output_offset)
            left_out = 0
            for piece in output:
                writer.output(piece)
                if output.left_out != left_out:
                    left_out = output.left_out
                    writer.leave_out(left_out)
                self._on_output()
            writer.end()
            self.end = output.exited
        self._on_output()


def _ignore(_: str) -> None:
    """Take a line about the progress of a pull."""
