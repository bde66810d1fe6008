"""The bare mirror of a repository: its heads and commits, fetched when the repository is checked."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actors.ir.decoding import quoted
from actors.ir.language.names import nearest
from actors.repositories.fetching.git import AccessRefused, CommitRefused, Git, LimitReached
from actors.repositories.fetching.remote import GitError
from actors.repositories.fetching.remote_host import allowed_address
from actors.vms.watched_process import Limits
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.repositories.fetching.git import Credential
    from actors.repositories.settings import RepositorySettings


FORMAT = "%(objectname) %(objecttype) %(*objectname) %(*objecttype) %(refname)"
"""The format of `git for-each-ref` that `found_heads` reads."""

NAMES = ("HEAD", "refs/heads/*", "refs/tags/*")
"""The names that `git ls-remote --symref` is asked for; `listed_heads` reads its answer."""

_REF = re.compile(r"ref: (refs/heads/\S+)\tHEAD")
_BRANCH, _TAG = "refs/heads/", "refs/tags/"
_ONE = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
"""Options for a fetch of one ref."""

_HASH = re.compile(r"[0-9a-f]+")
_MAX_NAME = 255
_MAX_MESSAGE = 10_000
_QUICK = 60.0
_FULL = (40, 64)
"""The lengths of full names of objects."""
PACKING, _BORROWED = "pack-", "borrowed-"
"""Beginnings of the names of folders in which a commit is packed, or a fork is looked at."""

_PARTIAL = ("tmp_", "incoming-")
"""Beginnings of names of what git has not finished."""
_ATTRIBUTES = "* -export-ignore -export-subst -filter\n"
"""Attributes that win over those of a commit.

All its files are packed, as a checkout without filters has them.
"""


_MOVED = ("stale info", "fetch first", "non-fast-forward", "cannot lock ref", "failed to update ref")
"""Parts of git's messages if a branch is not at the commit that a push expects."""

_REFUSED = (
    "rejected",
    "declined",
    "denied",
    "not permitted",
    "not allowed",
    "read-only",
    "read only",
    "error: 403",
    "unable to migrate objects",
    "unpacker error",
)
"""Parts of git's and hosts' messages if somebody may not push."""


class PushRefused(GitError):
    """The remote takes no push from the credential, or not this one; another attempt would not help."""

    def __init__(self, ref: str, why: object) -> None:
        advice = "give the token or deploy key the right to push there, then add it again"
        super().__init__(f"the host refuses the push to {ref}: {advice} ({why})")


@immutable
class Heads:
    """The commits of a repository's branches and tags, by full name, and its default branch."""

    commits: dict[str, str]
    default_branch: str | None

    def branches(self, *names: str | None) -> dict[str, str]:
        """Return those of some branches that exist, by name."""
        return {each: self.commits[ref] for each in names if each and (ref := f"{_BRANCH}{each}") in self.commits}


def listed_heads(printed: bytes) -> Heads:
    """Return the heads that `git ls-remote` printed; names that are too long are left out."""
    commits: dict[str, str] = {}
    default = None
    for line in printed.splitlines():
        with suppress(UnicodeDecodeError, ValueError):
            sha, ref = line.decode().split("\t")
            if sha.startswith("ref: ") and ref == "HEAD":
                default = sha.removeprefix(f"ref: {_BRANCH}")
            elif ref != "HEAD" and len(ref) <= _MAX_NAME:
                commits[ref.removesuffix("^{}")] = sha  # the commit of an annotated tag follows the tag
    return Heads(commits, default)


def found_heads(printed: bytes) -> dict[str, str]:
    """Return the commits of branches and tags that `git for-each-ref` printed.

    Tags of other objects and unusable names are left out.
    """
    commits = {}
    for line in printed.splitlines():
        with suppress(UnicodeDecodeError):
            sha, kind, tagged, tagged_kind, ref = line.decode().split(" ", 4)
            commit = sha if kind == "commit" else tagged if tagged_kind == "commit" else None
            if commit is not None and len(ref) <= _MAX_NAME:
                commits[ref] = commit
    return commits


def default_branch(printed: bytes) -> str | None:
    """Return the branch that HEAD names, as `git ls-remote --symref` printed it."""
    found = _REF.search(printed.decode(errors="replace"))
    return found[1].removeprefix(_BRANCH) if found else None


@immutable
class Commit:
    """A commit's message, and its author's name and address, as the commit claims them."""

    message: str
    author_name: str
    author_email: str


class Mirror:
    """The mirror of one repository. It blocks, and belongs to one thread at a time.

    Nothing of the repository is checked out: its files go from git's objects into an archive.

    Args:
        folder: of this repository alone.
        url: the URL or path of the repository.
        settings: limits of size and time.
        credential: what the repository's host asks for, if anything.
        limited: the folder whose size is limited, if not its own.
        address: the address of the URL's host, if a commit named it and not who connected a repository.
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        settings: RepositorySettings,
        credential: Credential | None = None,
        *,
        limited: Path | None = None,
        address: str | None = None,
    ) -> None:
        self.folder = folder
        self.path = folder / "mirror.git"
        self._complete = self.path / "complete"
        self._url = url
        self.settings = settings
        self.seconds = settings.fetch_timeout
        self.credential = credential
        self._limited = limited or folder
        self.address = address
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        max_bytes = int(settings.max_mirror_gb * 2**30)
        limits = Limits(settings.git_cpu_seconds, settings.git_memory_mb << 20)
        self.git = Git(self.folder, url, max_bytes, lambda: _size(self._limited), settings.ca_file, address, limits)

    def remote_heads(self) -> Heads:
        """Return the heads of the repository itself, without fetching its objects. Raises GitError."""
        return listed_heads(self._ask("ls-remote", "--symref", "--", self._url, *NAMES, at=self.folder))

    def fetch(self) -> Heads:
        """Bring the mirror up to date; return its heads. Raises GitError.

        A mirror that git cannot use, such as after a crash, is made anew.
        """
        self._update()
        return Heads(self._commits(), self._default_branch())

    def fetch_listed(self, listed: Heads) -> Heads:
        """Do as `fetch` does after `remote_heads`, whose default branch still holds."""
        self._update()
        return Heads(self._commits(), listed.default_branch)

    def _update(self) -> None:
        made = self._make()
        try:
            self._fetch()
        except GitError as error:
            if _size(self._limited) > self.git.max_bytes:
                self.remove()  # its partial packs would only grow
                raise
            self._clear()
            if isinstance(error, LimitReached) or made or self._is_whole():
                raise
            self.distrust()
            self._make()
            self._fetch()

    def distrust(self) -> None:
        """Let the mirror be made anew at the next fetch, because git cannot read it."""
        self._complete.unlink(missing_ok=True)

    @contextmanager
    def borrowed(self, url: str) -> Iterator[Mirror]:
        """Yield an empty mirror of another URL, which also finds this one's objects; then remove it.

        Nothing that is fetched into it comes into this one. Raises GitError if the URL is of another server.
        """
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=_BORROWED) as folder:
            other = Mirror(Path(folder), url, self.settings, self.credential)
            mine, its = self.git.remote, other.git.remote
            if url != self._url and (its.protocol != "https" or its.origin != mine.origin):
                raise GitError(f"{url} is not at the server of {self._url}")
            other._make()
            (other.path / "objects" / "info" / "alternates").write_text(f"{self.path / 'objects'}\n")
            yield other

    def push(self, ref: str, *, old: str, new: str, credential: Credential | None) -> bool:
        """Move a ref of the repository from one commit to a later one; False if it is not at the old one.

        The server compares as it moves, so nothing else can be lost or come between. ``credential`` is the one for
        pushes. Raises PushRefused and GitError.
        """
        arguments = ("push", "--no-verify", f"--force-with-lease={ref}:{old}", "--", self._url, f"{new}:{ref}")
        try:
            self.git.fetch(*arguments, at=self.path, seconds=self.seconds, credential=credential)
        except AccessRefused:
            raise
        except GitError as error:
            if any(each in str(error) for each in _MOVED):
                return False
            if any(each in str(error).lower() for each in _REFUSED):
                raise PushRefused(ref, error) from error
            raise
        return True

    def fetch_ref(self, ref: str) -> None:
        """Fetch one ref of the repository. Raises GitError."""
        self._ask("fetch", *_ONE, "--", self._url, f"+{ref}:refs/ci/head", at=self.path)

    def fetch_commit(self, commit: str) -> None:
        """Fetch, unless the commit is here already. Raises GitError."""
        self._make()
        if not self.has(commit):
            self.fetch()
        if not self.has(commit):
            self.fetch_ref(commit)

    def fetch_pinned(self, pin: str) -> str:
        """Fetch the commit of a tag, or one with this whole name, alone; return its name. Raises GitError."""
        self._make()
        if len(pin) in _FULL and _HASH.fullmatch(pin):
            ref = pin
        else:
            tags = [each.removeprefix(_TAG) for each in self.remote_heads().commits if each.startswith(_TAG)]
            if pin not in tags:
                raise GitError(f"there is no tag {quoted(pin)}{nearest(pin, tags)}: pin a tag or a whole commit")
            ref = f"{_TAG}{pin}"
        self._ask("fetch", *_ONE, "--depth=1", "--", self._url, f"+{ref}:refs/ci/head", at=self.path)
        return self.run("rev-parse", "--verify", "--end-of-options", "refs/ci/head^{commit}").decode().strip()

    def file(self, commit: str, path: str, max_bytes: int) -> bytes | None:
        """Return a file of a commit; None if it has none of at most ``max_bytes`` at that path."""
        name = f"{commit}:{path}"
        try:
            if int(self.run("cat-file", "-s", name)) > max_bytes:
                return None
            return self.run("cat-file", "blob", name)
        except GitError:
            return None

    def submodule(self, url: str, *, with_credential: bool) -> Mirror:
        """Return the mirror of a submodule, whose URL a commit names.

        At another host it gets no credential, and must have a public address. Raises GitError and RemoteInvalid.
        """
        mine, its = self.git.remote, self.git.remote.resolve(url)
        same_host = its.origin == mine.origin
        credential = self.credential if same_host and with_credential else None
        if its.protocol == "ssh" and credential is None:
            raise GitError("there is no deploy key for its host: give it an https URL")
        address = self.address if same_host else allowed_address(its, self.settings)
        folder = self.folder / "submodules" / hashlib.sha256(its.url.encode()).hexdigest()
        return Mirror(folder, its.url, self.settings, credential, limited=self._limited, address=address)

    def fetched(self, commit: str) -> str | None:
        """Return the full name of a commit that is here; an abbreviated one must be what `fetch_ref` got.

        Anybody can make another commit with the same beginning. Raises GitError only if git is missing.
        """
        try:
            head = self.run("rev-parse", "--verify", "--quiet", "refs/ci/head^{commit}").decode().strip()
        except GitError:
            head = ""
        if head.startswith(commit):
            return head
        return commit if len(commit) in _FULL and self.has(commit) else None

    def commit(self, commit: str) -> Commit:
        """Return a commit's message and author, none that git cannot print within its limits. Raises GitError.

        `git show` compares the trees even for an answer without a patch, `git log` does not: trees are cheap to make
        and may have more paths than anybody can count.
        """
        options = ("--no-walk", "--no-show-signature", "--format=%an%x00%ae%x00%B")
        try:
            text = self.run("log", *options, "--end-of-options", commit)
        except CommitRefused:
            return Commit("", "", "")
        name, email, message = text.decode(errors="replace").split("\0", 2)
        return Commit(message.strip()[:_MAX_MESSAGE], name[:_MAX_NAME], email[:_MAX_NAME])

    def has(self, commit: str) -> bool:
        """Tell whether the mirror has a commit of this name. Raises GitError only if git is missing."""
        try:
            self.run("cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            return False
        return True

    def changed(self, old: str | None, new: str) -> tuple[str, ...] | None:
        """Return the paths in which two commits differ; of a renamed file both. None if that is not known."""
        if old is None:
            return None
        try:
            names = self.run("diff-tree", "-r", "-z", "--no-renames", "--name-only", "--end-of-options", old, new)
        except GitError:  # such as too many of them, or a commit that is not here
            return None
        return tuple(name.decode(errors="replace") for name in names.split(b"\0") if name)

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the best common ancestor of two commits; None if there is none."""
        try:
            return self.run("merge-base", "--", one, other).decode().strip() or None
        except GitError:
            return None

    def run(self, *arguments: str) -> bytes:
        """Return the output of a git command in the mirror, which fetches nothing. Raises GitError."""
        return self.git.run(*arguments, at=self.path, seconds=self.seconds)

    def remove(self) -> None:
        """Delete the mirror."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make(self) -> bool:
        """Make the mirror if there is none that is complete, else only clear it; tell whether it was made."""
        if self._complete.exists():
            self._clear()
            self._set_attributes()
            return False
        shutil.rmtree(self.path, ignore_errors=True)
        self.git.run("init", "--quiet", "--bare", "--template=", str(self.path), at=self.folder, seconds=_QUICK)
        self._set_attributes()
        self._complete.touch()
        return True

    def _set_attributes(self) -> None:
        """Write the attributes, also into a mirror that an earlier release made."""
        path = self.path / "info" / "attributes"
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text() != _ATTRIBUTES:
            path.write_text(_ATTRIBUTES)

    def _fetch(self) -> None:
        refs = [f"+refs/{each}/*:refs/{each}/*" for each in ("heads", "tags")]
        options = ("--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--force")
        self._ask("fetch", *options, "--", self._url, *refs, at=self.path)

    def _clear(self) -> None:
        """Delete what a killed git left: nobody else uses the mirror, so its locks are nobody's."""
        _clear(self.path)

    def _is_whole(self) -> bool:
        """Tell whether git can read all commits and trees of the mirror."""
        try:
            self.git.check_all("rev-list", "--objects", "--all", "--quiet", at=self.path, seconds=self.seconds)
        except LimitReached:
            return True  # another mirror would take as long
        except GitError:
            return False
        return True

    def _ask(self, *arguments: str, at: Path) -> bytes:
        seconds = min(self.seconds, _QUICK) if arguments[0] == "ls-remote" else self.seconds
        return self.git.fetch(*arguments, at=at, seconds=seconds, credential=self.credential)

    def _commits(self) -> dict[str, str]:
        return found_heads(self.run("for-each-ref", f"--format={FORMAT}", "refs/heads", "refs/tags"))

    def _default_branch(self) -> str | None:
        return default_branch(self._ask("ls-remote", "--symref", "--", self._url, "HEAD", at=self.path))


def heads_at(url: str, settings: RepositorySettings, credential: Credential | None) -> dict[str, str]:
    """Return the commits of the branches and tags of a repository, by full name, without a mirror.

    Raises GitError.
    """
    with tempfile.TemporaryDirectory(prefix="ci-daemon-heads-") as folder:
        return Mirror(Path(folder), url, settings, credential).remote_heads().commits


def _size(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 - called five times a second
    return total


def clean_up(folder: Path) -> None:
    """Delete what a killed process left in the folder of a mirror that nobody uses."""
    for each in (folder, *(folder / "submodules").glob("*")):
        for left in [*each.glob(f"{PACKING}*"), *each.glob(f"{_BORROWED}*")]:
            shutil.rmtree(left, ignore_errors=True)
        _clear(each / "mirror.git")


def _clear(mirror: Path) -> None:
    for each in ("logs", "tmp"):
        shutil.rmtree(mirror / "lfs" / each, ignore_errors=True)
    for parent, folders, files in os.walk(mirror):
        here = Path(parent)
        for name in [each for each in folders if each.startswith(_PARTIAL)]:
            shutil.rmtree(here / name, ignore_errors=True)
            folders.remove(name)
        for name in files:
            if name.endswith(".lock") or name.startswith(_PARTIAL):
                (here / name).unlink(missing_ok=True)
