"""The logins at registries that a job gets by `registries`, where Buildah, Podman and Skopeo look.

They are among the secrets of the attempt, so that its log is masked by them, also after a restart; but in no variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import vms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from storage import RegistryAccount

_LOGIN, _PASSWORD = "login at ", "password at "
"""The beginnings of their names among the secrets, which no secret of people has."""

_FILE = "/run/user/0/containers/auth.json"
_SECONDS = 60.0


def as_secrets(accounts: Iterable[RegistryAccount]) -> dict[str, str]:
    """Return accounts as secrets of an attempt: the form in the file, and the password, to be masked."""
    found = {}
    for each in accounts:
        found[f"{_LOGIN}{each.host}"] = vms.authorization_of(each)
        found[f"{_PASSWORD}{each.host}"] = each.password
    return found


def variables_in(secrets: Mapping[str, str]) -> dict[str, str]:
    """Return those secrets of an attempt that are variables of its command."""
    return {name: value for name, value in secrets.items() if not name.startswith((_LOGIN, _PASSWORD))}


def lay_logins(connection: vms.Connection, secrets: Mapping[str, str]) -> None:
    """Write the file of the logins among the secrets, if there are any, into memory of the job's VM.

    Raises VmError and ConnectionLost.
    """
    authorizations = {name.removeprefix(_LOGIN): form for name, form in secrets.items() if name.startswith(_LOGIN)}
    if not authorizations:
        return
    write = f"umask 077 && mkdir -p {_FILE.rpartition('/')[0]} && cat >{_FILE}"
    done = connection.run(vms.in_job(write), stdin=vms.auth_file(authorizations), timeout=_SECONDS)
    if done.exit_code != 0:
        raise vms.VmError(
            f"the logins at registries cannot be written in the VM: {done.stderr.decode(errors='replace')}"
        )
