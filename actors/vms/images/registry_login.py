"""Logins at registries, as Skopeo, Buildah and Podman read them; of a pull they are in memory alone."""

from __future__ import annotations

import base64
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from storage import RegistryAccount


def authorization_of(account: RegistryAccount) -> str:
    """Return the form of an account in the file: username and password in base64."""
    return base64.b64encode(f"{account.username}:{account.password}".encode()).decode()


def auth_file(accounts: Iterable[RegistryAccount]) -> bytes:
    """Return the file ``auth.json`` of some accounts."""
    return json.dumps({"auths": {each.host: {"auth": authorization_of(each)} for each in accounts}}).encode()


@contextmanager
def login_file(account: RegistryAccount | None) -> Iterator[tuple[Mapping[str, str], tuple[int, ...]]]:
    """Yield variables and descriptors by which a program has a login, on no disk; none without one."""
    if account is None:
        yield {}, ()
        return
    with os.fdopen(os.memfd_create("login"), "wb") as file:
        file.write(auth_file([account]))
        file.flush()
        yield {"REGISTRY_AUTH_FILE": f"/proc/self/fd/{file.fileno()}"}, (file.fileno(),)
