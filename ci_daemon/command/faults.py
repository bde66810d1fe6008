"""The exceptions that a user can do something about, and their error messages."""

from __future__ import annotations

import errno
from http import HTTPStatus

from actors.vms import VmError
from api import CannotListen
from ci_daemon.backup import BackupError
from ci_daemon.config import ConfigError
from ci_daemon.install.host import InstallError
from ci_daemon.lock import AlreadyServed
from ci_daemon.open_files import TooFewFiles
from ci_daemon.submit.client import ApiError, ServiceUnreachable
from ci_daemon.submit.pack import PackError
from ci_daemon.tracing import TracingUnavailable
from storage import StorageError

__all__ = ["FAULTS", "sentence"]

FAULTS = (
    AlreadyServed,
    ApiError,
    BackupError,
    CannotListen,
    ConfigError,
    InstallError,
    OSError,
    PackError,
    ServiceUnreachable,
    StorageError,
    TooFewFiles,
    TracingUnavailable,
    UnicodeEncodeError,
    VmError,
)

_LONGEST = 100


def sentence(error: Exception) -> str:
    """Return the error message for the user."""
    match error:
        case ApiError(status=HTTPStatus.UNAUTHORIZED):
            return f"{error}: check CI_DAEMON_TOKEN, and CI_DAEMON_URL"
        case ApiError(code="body_too_large"):
            return f"{error}: have .gitignore leave out what no step needs, or raise http.max_body_bytes of the service"
        case PermissionError(filename=str(name)):
            return f"{name}: Permission denied: run this with sudo, or as whom it belongs to"
        case OSError(errno=errno.ENOSPC, filename=name):
            return f"{name or 'what this writes to'}: the disk is full: free some, and run the same command again"
        case UnicodeEncodeError(object=text):
            return f"{text[:_LONGEST]!a} is not UTF-8: give names and texts in it"
        case OSError(filename=str(name), strerror=str(reason)):
            return f"{name}: {reason}"
        case _:
            return str(error)
