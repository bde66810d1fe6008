"""Artifacts that jobs of GitHub upload and others download, as `files` of the language. Pure.

GitHub keeps an artifact's files below the folder that its paths have in common, and lays them into a folder of choice.
Here a file has its own path in both jobs, so that a command copies what is wanted elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from actors.ir.systems.github_expressions import filled
from actors.ir.systems.github_image import action_of
from actors.ir.systems.github_matrix import cells_of
from actors.ir.systems.jobs import label, word
from actors.ir.systems.omissions import LeftOut, Omissions, UnknownExpression, only
from actors.ir.systems.paths import is_file
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.ir.systems.located import Located

UPLOAD, DOWNLOAD = "actions/upload-artifact", "actions/download-artifact"

_UNNAMED = "artifact"
_OPTIONS = frozenset({"name", "path", "pattern", "merge-multiple"})
_GLOB = frozenset("*?[]")
_NAMES = re.compile(r"[\w.*?/@+ -]+", re.ASCII)
"""Paths that a shell reads as they are, but for globs."""


@immutable
class Upload:
    """An artifact of one cell of a job: its name, and its paths, which are globs of the workspace.

    One that is not ``whole`` has more than is kept of it here.
    """

    name: str
    paths: tuple[str, ...]
    whole: bool

    @property
    def is_one_path(self) -> bool:
        """Tell whether it is of one path, which may be that of a file or a folder."""
        return len(self.paths) == 1 and not self.paths[0].endswith("/") and not _GLOB & set(self.paths[0])

    @property
    def root(self) -> tuple[str, ...]:
        """The folder that its files are relative to, as GitHub finds it, in segments.

        It is the path itself where that is the only one.
        """
        found = [_searched(path) for path in self.paths]
        outer = [each for each in dict.fromkeys(found) if not any(_below(each, other) for other in found)]
        common = outer[0]
        for each in outer[1:]:
            pairs = zip(common, each, strict=False)
            common = common[: next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(common), len(each)))]
        return common


def _searched(path: str) -> tuple[str, ...]:
    """Return the segments of a path before the first that is a glob."""
    segments = [each for each in path.split("/") if each not in {"", "."}]
    return tuple(segments[: next((at for at, each in enumerate(segments) if _GLOB & set(each)), len(segments))])


def _below(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return len(path) > len(other) and path[: len(other)] == other


def kept_paths(options: Located, cell: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the globs of what an upload keeps, and why others are not kept."""
    found: list[str] = []
    lost: list[str] = []
    for line in (options.get("path").text or "").splitlines():
        try:
            path = filled(line.strip().removeprefix("./"), cell)
        except UnknownExpression as error:
            lost.append(f"it is not kept: {error}")
            continue
        path = path.removeprefix("/workspace/")
        if path.startswith(("/", "!", "~")) or ".." in path.split("/") or label(path) != path:
            lost.append(f"it is not kept: {label(path)} is not a glob below the project")
        elif path and path not in found:
            found.append(path)
    return found, lost


def _upload(options: Located, cell: Mapping[str, str]) -> Upload | None:
    """Return what a step of one cell uploads; None if its name is not known."""
    paths, lost = kept_paths(options, cell)
    given = options.get("name")
    try:
        called = _UNNAMED if given.value is None else filled(given.number_or_text, cell)
    except UnknownExpression:
        return None
    return Upload(called, tuple(paths), not lost and bool(paths))


@immutable
class Download:
    """The files that a step takes: globs of the artifacts of each job, and the commands that copy them."""

    files: Mapping[str, tuple[str, ...]]
    commands: tuple[str, ...]

    @property
    def copies(self) -> bool:
        """Tell whether files are at another path, too, than there."""
        return not all(each.startswith("test ") for each in self.commands)


class Artifacts:
    """The artifacts of all jobs of a workflow, by the jobs' names, each read once."""

    def __init__(self, jobs: Mapping[str, Located]) -> None:
        self._jobs = jobs
        self._found: dict[str, list[list[Upload | None]]] = {}

    def before(self, name: str) -> Downloads:
        """Return the downloads of a job, of the artifacts that the jobs before it upload."""
        return Downloads(lambda: {each: self._of(each) for each in self._behind(name)})

    def _behind(self, name: str) -> list[str]:
        behind: dict[str, None] = {}
        ahead = [name]
        while ahead:
            for each in self._jobs[ahead.pop()].get("needs").texts() or ():
                if each not in behind and each in self._jobs:
                    behind[each] = None
                    ahead.append(each)
        return [each for each in self._jobs if each in behind]

    def _of(self, name: str) -> list[list[Upload | None]]:
        """Return what each cell of a job uploads; nothing of one that is left out."""
        if name not in self._found:
            job = self._jobs[name]
            steps = [each for each in job.get("steps").items() if each.mapping() and action_of(each) == UPLOAD]
            try:
                cells = cells_of(name, job.get("strategy"), Omissions("")) if steps else []
            except LeftOut:
                cells = []
            self._found[name] = [[_upload(each.get("with"), cell) for each in steps] for cell in cells]
        return self._found[name]


class Downloads:
    """The downloads of a job.

    ``made`` returns the uploads of each cell of the jobs that it needs, by their names; None where one is not known.
    """

    def __init__(self, made: Callable[[], Mapping[str, Sequence[Sequence[Upload | None]]]]) -> None:
        self._made = made

    def read(self, step: Located, key: str, cell: Mapping[str, str]) -> Download:
        """Return what a step takes. Raises LeftOut."""
        options = step.get("with")
        for each, given in options.mapping().items():
            if each not in _OPTIONS:
                raise LeftOut(given, f"{key}.with.{each}", "artifacts of other runs and repositories are not there")
        only(options, _OPTIONS, f"{key}.with")
        try:
            name, pattern, folder = (_filled(options.get(each), cell) for each in ("name", "pattern", "path"))
        except UnknownExpression as error:
            raise LeftOut(options, f"{key}.with", str(error)) from error
        target = self._folder(options, key, folder or "")
        merged = name is not None or options.get("merge-multiple").scalar == "true"
        files: dict[str, tuple[str, ...]] = {}
        commands: dict[str, None] = {}
        for job, cells in self._made().items():
            taken = [each for uploads in cells for each in uploads if _is_wanted(each, name, pattern)]
            if not taken:
                continue
            others = [each for uploads in cells for each in uploads if not _is_wanted(each, name, pattern)]
            known = _checked(step, key, job, taken, others)
            files[job] = _globs(known, everything=not others)
            for upload in known:
                place = target if merged else (*target, upload.name)
                commands |= dict.fromkeys(_copied(upload, place, step, key))
            if not merged and len({upload.name for upload in known}) > len({upload.paths for upload in known}):
                raise LeftOut(step, key, f"the artifacts of {label(job)} have the same paths: merge them")
        if not files:
            wanted = label(name or pattern or "any")
            raise LeftOut(step, f"{key}.uses", f"no job that it needs uploads the artifact {wanted}")
        return Download(files, tuple(commands))

    def _folder(self, options: Located, key: str, given: str) -> tuple[str, ...]:
        path = given.removeprefix("./").removeprefix("/workspace")
        inside = not given.startswith(("/", "~")) or given.startswith("/workspace")
        if not inside or ".." in path.split("/") or (path and not _NAMES.fullmatch(path)) or _GLOB & set(path):
            raise LeftOut(options, f"{key}.with.path", f"{label(given)} is no plain folder of the workspace")
        return tuple(each for each in path.split("/") if each not in {"", "."})


def _filled(given: Located, cell: Mapping[str, str]) -> str | None:
    return None if given.value is None else filled(given.number_or_text, cell)


def _checked(
    step: Located, key: str, job: str, taken: Sequence[Upload | None], others: Sequence[Upload | None]
) -> list[Upload]:
    """Return artifacts of a job. Raises LeftOut if they cannot be taken without the others."""
    known = [each for each in taken if each is not None]
    if len(known) < len(taken):
        raise LeftOut(step, key, f"the names of the artifacts of {label(job)} are not known")
    if not all(each.whole for each in known):
        raise LeftOut(step, key, f"not all that {label(job)} uploads is kept here")
    paths = Counter(path for each in known for path in each.paths)
    if any(each is not None and not paths.keys().isdisjoint(each.paths) for each in others):
        why = f"of the artifacts of {label(job)} it takes some alone, and others have the same paths"
        raise LeftOut(step, key, why)
    if any(count > 1 and is_file(path) for path, count in paths.items()):
        why = f"each cell of {label(job)} keeps a file of one name: let the names have the values of the cell"
        raise LeftOut(step, key, why)
    return known


def _globs(taken: Sequence[Upload], *, everything: bool) -> tuple[str, ...]:
    """Return the globs that select artifacts; ``**`` where that is all, as each glob has to select a file."""
    paths = tuple(dict.fromkeys(path for each in taken for path in each.paths))
    return ("**",) if everything and len(paths) > 1 else paths


def _is_wanted(upload: Upload | None, name: str | None, pattern: str | None) -> bool:
    if upload is None:
        return True
    return upload.name == name if name is not None else pattern is None or fnmatchcase(upload.name, pattern)


def _copied(upload: Upload, target: tuple[str, ...], step: Located, key: str) -> list[str]:
    """Return the commands that copy an artifact to the folder that a download names. Raises LeftOut."""
    if not all(_NAMES.fullmatch(each) for each in (*upload.paths, upload.name)):
        raise LeftOut(step, key, "its paths have signs that a shell takes for its own")
    root, place = upload.root, "/".join(target)
    quoted = word(place or ".")
    if upload.is_one_path:
        path = "/".join(root)
        if root == target:
            return [f"test -d {word(path)}"]  # of a file GitHub would make a folder
        folder = f"mkdir -p {quoted} && cp -R {word(f'{path}/.')} {quoted}"
        if root[:-1] == target:
            if is_file(path):
                return [f"test ! -d {word(path)}"]  # whose content it would be
            return [f"if test -d {word(path)}; then {folder}; fi"]
        return [f"if test -d {word(path)}; then {folder}; else mkdir -p {quoted} && cp {word(path)} {quoted}; fi"]
    if root == target:
        return []
    if len(upload.paths) > 1 or not root:
        above = "/".join(root) or "the workspace itself"
        why = f"its files are relative to {above} there: name one folder, or let `path` of the download be that one"
        raise LeftOut(step, key, why)
    (path,) = upload.paths
    base = word("/".join(root))
    rest = path.split("/")[len(root) :]
    if rest in ([""], ["**"], ["**", "*"]):
        return [f"mkdir -p {quoted} && cp -R {base}/. {quoted}"]
    if len(rest) != 1 or "**" in rest[0] or " " in rest[0]:
        raise LeftOut(
            step, key, "only globs of names are copied to another folder: let `path` of the download be theirs"
        )
    return [f"mkdir -p {quoted} && cp -R {base}/{rest[0]} {quoted}"]
