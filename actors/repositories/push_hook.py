"""The post-receive hook of a repository on this host, which reports its pushes."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HOOK = "hooks/post-receive"
_TOKEN_FILE = "ci-daemon.token"  # noqa: S105 - a name

_MARK = "# Reports pushes to ci-daemon."
_UNREPORTED = "ci-daemon was not told of this push: while the repository is connected, it is found at the next look"
_WAIT = 8
_LONGEST = 10
"""Seconds in which a hook asks for the outcome, and the most seconds by which it delays a push."""

_SCRIPT = """\
#!/usr/bin/env -S python3 -I
{mark} It never fails a push: what it cannot report, the service finds when it looks.
# git shows what it prints to whom pushes: what the push started, or why it started nothing.
import os, signal, sys, urllib.request, uuid

def late(*_):
    raise TimeoutError("no answer within {longest} seconds")

signal.signal(signal.SIGALRM, late)
signal.alarm({longest})
try:
    with open(os.path.join(os.environ.get("GIT_DIR", "."), {token_file!r})) as file:
        token = file.read().strip()
    headers = {{
        "Authorization": f"Bearer {{token}}",
        "X-Delivery-Id": str(uuid.uuid4()),
        "Content-Type": "text/plain",
    }}
    address = {url!r}
    request = urllib.request.Request(f"{{address}}?wait={wait}", sys.stdin.buffer.read(), headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(request, timeout={longest}) as answer:
        told = answer.read({most}).decode("utf-8", "replace")
    for line in told.splitlines():
        print("".join(each if each.isprintable() else "?" for each in line), file=sys.stderr)
except (OSError, ValueError) as error:
    reason = getattr(error, "reason", error)
    print(f"{unreported} ({{getattr(reason, 'strerror', None) or reason}})", file=sys.stderr)
"""
_MOST_BYTES = 65_536

_FORMER = frozenset({"3e09f8819746b6a901e6ed38d85eaa1454224d00c39e3fab5279ae388e068def"})
"""The SHA-256 digests of the hooks that former releases installed, with {url} for the address."""

_ADDRESS = re.compile(r"'([^'\s]+)/webhooks/git'")


def hook_script(url: str) -> str:
    """Return the hook's text. Its token is in a file that only the repository's owner may read."""
    return _SCRIPT.format(
        mark=_MARK,
        token_file=_TOKEN_FILE,
        url=f"{url}/webhooks/git",
        unreported=_UNREPORTED,
        wait=_WAIT,
        longest=_LONGEST,
        most=_MOST_BYTES,
    )


def server_hook(url: str, token: str) -> str:
    """Return shell lines that install a hook on another server, in the folder of a bare repository.

    It needs curl, never fails a push, and delays none by more than ten seconds. Its token is in a file that only that
    repository's owner may read. If a hook is there already, only its token is replaced, in the form that it reads: a
    header for this hook, the token alone for the one of `install_hook`, on the service's own host.
    """
    address, header = f"{url}/webhooks/git", f"Authorization: Bearer {token}"
    asked = shlex.quote(f"{address}?wait={_WAIT}")
    report = (
        f"curl -fsS -m {_LONGEST} -H @{_TOKEN_FILE} -H 'Content-Type: text/plain'"
        f' -H "X-Delivery-Id: $(date +%s%N)-$$" --data-binary @- {asked} || echo {shlex.quote(_UNREPORTED)} >&2'
    )
    return (
        f"(umask 077; (grep -qsF '{_MARK}' {_HOOK} && echo '{token}' || echo '{header}') >{_TOKEN_FILE})\n"
        f"[ -e {_HOOK} ] || echo '#!/bin/sh' >{_HOOK}\n"
        f"grep -qsF {shlex.quote(address)} {_HOOK} || (echo; echo {shlex.quote(report)}) >>{_HOOK}; chmod +x {_HOOK}"
    )


def install_hook(repository: Path, url: str, token: str) -> bool:
    """Install the hook with its token; False, and no change, if there is a hook, or no permission."""
    folder = _git_folder(repository)
    hook, secret = folder / _HOOK, folder / _TOKEN_FILE
    try:
        hook.parent.mkdir(exist_ok=True)
        _write(hook, hook_script(url), 0o755)
    except OSError:
        return False
    secret.unlink(missing_ok=True)
    _write(secret, f"{token}\n", 0o600)
    return True


def hook_is_outdated(repository: Path, url: str) -> bool:
    """Tell whether a hook that was installed is of a former release, or reports to another address."""
    hook = _git_folder(repository) / _HOOK
    try:
        text = "" if hook.is_symlink() else hook.read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return _is_ours(text) and text != hook_script(url)


def renew_hook(repository: Path, url: str) -> None:
    """Replace an outdated hook by that of this release; its token stays. Raises OSError."""
    if hook_is_outdated(repository, url):
        hook = _git_folder(repository) / _HOOK
        new = hook.with_name(f"{hook.name}.new")
        new.unlink(missing_ok=True)
        _write(new, hook_script(url), 0o755)
        new.replace(hook)  # at once, as a push may run it


def remove_hook(repository: Path) -> bool:
    """Remove the token, and the hook if it was installed, for whatever address; False if a hook stays."""
    folder = _git_folder(repository)
    hook = folder / _HOOK
    try:
        (folder / _TOKEN_FILE).unlink(missing_ok=True)
        if not _is_ours(hook.read_text()):
            return False
        hook.unlink()
    except FileNotFoundError:
        return True
    except (OSError, UnicodeDecodeError):
        return False
    return True


def _git_folder(repository: Path) -> Path:
    return repository / ".git" if (repository / ".git").is_dir() else repository


def _is_ours(text: str) -> bool:
    """Tell whether a hook is one that was installed here, and that nobody has changed."""
    address = _ADDRESS.search(text)
    if address is None:
        return False
    digest = hashlib.sha256(text.replace(address[1], "{url}").encode()).hexdigest()
    return text == hook_script(address[1]) or digest in _FORMER


def _write(path: Path, text: str, mode: int) -> None:
    """Write a new file. Raises FileExistsError, also for a link."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
