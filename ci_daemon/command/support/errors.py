"""The exceptions that a user can do something about, and their error messages."""

from __future__ import annotations

import errno
from http import HTTPStatus

from api import ApiError
from ci_daemon.remote.errors import RequestFailed
from storage import UserUnknown, error_reason

EXPECTED_ERRORS = frozenset(
    {
        "actors.engine.EngineBusy",
        "actors.vms.provider.VmError",
        "api.errors.catalog.ApiError",
        "api.http.server.CannotListen",
        "api.operations.operation.Refused",
        "builtins.OSError",
        "builtins.UnicodeEncodeError",
        "ci_daemon.backup.manifest.BackupError",
        "ci_daemon.config.reading.ConfigError",
        "ci_daemon.host.lock.AlreadyServed",
        "ci_daemon.host.place.StateCopied",
        "ci_daemon.host.process.TooFewFiles",
        "ci_daemon.install.host.InstallError",
        "ci_daemon.local.building.BuildRefused",
        "ci_daemon.local.folders.CacheUnusable",
        "ci_daemon.local.requirements.HostUnfit",
        "ci_daemon.remote.contexts.ContextsUnusable",
        "ci_daemon.remote.download.DownloadRefused",
        "ci_daemon.remote.errors.RequestFailed",
        "ci_daemon.remote.errors.ServiceUnreachable",
        "ci_daemon.remote.handoff.SignInFailed",
        "ci_daemon.submit.packing.PackError",
        "ci_daemon.tracing.tracer.TracingUnavailable",
        "storage.errors.StorageError",
    }
)
"""The classes of the exceptions by their names: to import all of them takes longer than most commands."""

_MAX_QUOTED = 100
_ADVICE = {
    "organization_not_found": "`ci-daemon org list` shows yours",
    "pipeline_not_found": "`ci-daemon pipeline list ORG` shows all",
    "build_not_found": "`ci-daemon build list ORG/PIPELINE` shows all",
    "coupon_not_found": "`ci-daemon coupon list` shows all",
    "schedule_not_found": "`ci-daemon schedule list ORG PIPELINE` shows all",
    "notification_not_found": "`ci-daemon notify list ORG PIPELINE` shows those of a pipeline",
    "notification_delivery_not_found": "`ci-daemon notify deliveries ID` shows those of a notification",
    "secret_not_found": "`ci-daemon secret list ORG` shows all",
    "delivery_not_found": "`ci-daemon webhook list` shows those of the last seven days",
    "invite_not_found": "`ci-daemon invite list ORG` shows all",
    "api_token_not_found": "`ci-daemon token list` shows all",
    "session_required": "`ci-daemon login URL` makes one",
}
"""The way on, by the error codes of a service."""


def is_expected(error: Exception) -> bool:
    """Tell whether a user can do something about an error."""
    return any(f"{kind.__module__}.{kind.__qualname__}" in EXPECTED_ERRORS for kind in type(error).__mro__)


def error_message(error: Exception) -> str:
    """Return the error message for the user."""
    match error:
        case RequestFailed(status=HTTPStatus.UNAUTHORIZED):
            return f"{error}: sign in with `ci-daemon login URL`, or check CI_DAEMON_TOKEN, and CI_DAEMON_URL"
        case RequestFailed(code="body_too_large"):
            return (
                f"{error}: exclude files that no step needs in .gitignore, or raise http.max_body_bytes of the service"
            )
        case RequestFailed(code=code) | ApiError(code=code) if code in _ADVICE:
            return f"{error}: {_ADVICE[code]}"
        case UserUnknown():
            return f"{error}: `ci-daemon user list` shows all"
        case PermissionError(filename=str(name)):
            return f"{name}: Permission denied: run this with sudo, or as its owner"
        case OSError(errno=errno.ENOSPC, filename=name):
            return f"{name or 'the output'}: the disk is full: free some space, and run the same command again"
        case UnicodeEncodeError(object=text):
            return f"{text[:_MAX_QUOTED]!a} is not valid UTF-8"
        case OSError(filename=str(name), strerror=str(reason)):
            return f"{name}: {reason}"
        case _:
            return error_reason(error)
