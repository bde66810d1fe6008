"""Files of jobs at tags and commits of connected repositories, for the pipelines of others."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from actors.ir.decoding import quoted
from actors.ir.language.names import nearest
from actors.ir.language.scalars import JobFileName
from actors.ir.language.yaml_text import MAX_BYTES
from actors.render.yaml_files import refused
from actors.repositories.fetching.git import AccessRefused
from actors.repositories.fetching.mirror import Mirror
from actors.repositories.fetching.remote import GitError
from actors.source_hosts.host import HostError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.render.yaml_files import FoundFiles
    from actors.settings import LiveSettings
    from actors.source_hosts.host import SourceHost
    from storage import Repository, Storage

_FOLDER = ".hm"
_MOST_PLACES = 10
"""The most tags and commits of other repositories in the files of one commit."""


class ConnectedJobFiles:
    """Fetches files of jobs from the repositories of an organization, and from no others.

    Each tag or commit is fetched alone, beside the mirrors: these are locked while their own pushes are rendered, which
    may use files of each other. It blocks. Safe in any thread.
    """

    def __init__(self, storage: Storage, live_settings: LiveSettings, hosts: Mapping[str, SourceHost]) -> None:
        self._storage = storage
        self._live_settings = live_settings
        self._hosts = hosts

    def fetch(self, organization: str, names: Sequence[str]) -> FoundFiles:
        """Return files by their names, or why they are not there."""
        places: dict[tuple[str, str], list[JobFileName]] = defaultdict(list)
        for name in map(JobFileName.parse, names):
            places[name.repository or "", name.pin or ""].append(name)
        if len(places) > _MOST_PLACES:
            return refused(names, f"expected files of at most {_MOST_PLACES} tags and commits of other repositories")
        found: FoundFiles = {}
        for (repository, pin), files in places.items():
            try:
                found |= self._fetched(self._repository(organization, repository), pin, files)
            except (GitError, HostError) as error:
                found |= refused([str(each) for each in files], str(error))
        return found

    def _repository(self, organization: str, name: str) -> Repository:
        """Return a repository of an organization by its name or URL. Raises GitError."""
        owner = self._storage.organizations.by_slug(organization)
        connected = [] if owner is None else self._storage.repositories.of_organization(owner.id)
        fitting = [each for each in connected if name in {each.repo_name, each.url}]
        fitting = fitting or [each for each in connected if each.repo_name.lower() == name.lower()]
        if len(fitting) > 1:
            raise GitError(f"the organization has connected several repositories {quoted(name)}: write the URL of one")
        if not fitting:
            hint = nearest(name, [each.repo_name for each in connected])
            raise GitError(f"the organization has connected no repository {quoted(name)}{hint}")
        return fitting[0]

    def _fetched(self, repository: Repository, pin: str, files: Sequence[JobFileName]) -> FoundFiles:
        try:
            return self._fetched_once(repository, pin, files)
        except AccessRefused:
            if not self._hosts[repository.provider].renew_credential(repository):
                raise
            return self._fetched_once(repository, pin, files)

    def _fetched_once(self, repository: Repository, pin: str, files: Sequence[JobFileName]) -> FoundFiles:
        credential = self._hosts[repository.provider].credential(repository)
        settings = self._live_settings.now.repositories
        with tempfile.TemporaryDirectory(prefix="ci-daemon-used-") as folder:
            mirror = Mirror(Path(folder), repository.url, settings, credential)
            commit = mirror.fetch_pinned(pin)
            return {str(each): _file(mirror, commit, each) for each in files}


def _file(mirror: Mirror, commit: str, file: JobFileName) -> dict[str, str]:
    path = f"{_FOLDER}/{file.path}"
    content = mirror.file(commit, path, MAX_BYTES)
    if content is None:
        at = f"{file.repository} at {file.pin}"
        return {"refused": f"{at} has no file {quoted(path)} of at most {MAX_BYTES >> 10} KiB"}
    try:
        return {"text": content.decode("utf-8-sig")}
    except UnicodeDecodeError:
        return {"refused": "the file is not UTF-8"}
