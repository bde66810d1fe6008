"""Mirrors of real repositories, also of hostile ones, and the archives of their commits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from actors.repositories.fetching.mirror import Mirror
from actors.repositories.fetching.remote import GitError
from actors.repositories.packing.packing import Extras, pack_commit
from actors.repositories.settings import RepositorySettings, SourceSettings
from actors.vms.guest.source_archive import write_manifest
from tests.git_repository import GitRepository
from tests.unpacking import unpacked

MAIN = "refs/heads/main"


@pytest.fixture
def remote(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "remote")


def mirror_of(tmp_path: Path, url: str, **settings: float) -> Mirror:
    return Mirror(tmp_path / "mirrors" / "a-uuid", url, RepositorySettings(**settings))


@pytest.fixture
def mirror(tmp_path: Path, remote: GitRepository) -> Mirror:
    return mirror_of(tmp_path, str(remote.bare))


def test_a_mirror_follows_branches_tags_and_rewritten_history(remote: GitRepository, mirror: Mirror):
    assert mirror.fetch().commits == {}
    first = remote.commit("One", a="1")
    remote.git("tag", "--annotate", "v1", "--message", "The first")
    remote.git("tag", "tree", "HEAD^{tree}")
    remote.push("main", "v1", "tree", "main:gone")
    heads = mirror.fetch()
    assert heads.commits == {MAIN: first, "refs/heads/gone": first, "refs/tags/v1": first}
    assert heads.default_branch == "main"
    remote.git("commit", "--quiet", "--amend", "--message", "Two")
    remote.push("--force", "main", ":gone", ":v1")
    assert mirror.fetch().commits == {MAIN: remote.git("rev-parse", "HEAD")}


def test_git_works_in_the_source_of_a_commit(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    for number in range(5):
        commit = remote.commit(f"Commit {number}", folder__a=str(number), run="#!/bin/sh\n")
        if number == 3:
            remote.git("tag", "--annotate", "v1.3", "--message", "A release")
    (remote.path / "run").chmod(0o755)
    (remote.path / "link").symlink_to("folder/a")
    commit = remote.commit("A link [brackets]")
    remote.push("main", "v1.3")
    mirror.fetch()
    archive = pack_commit(mirror, MAIN, commit, SourceSettings(depth=4))
    assert archive == pack_commit(mirror, MAIN, commit, SourceSettings(depth=4))
    assert archive[4:8] == bytes(4), "the archive has a time"
    source = unpacked(archive, tmp_path / "workspace")
    assert source.git("describe") == f"v1.3-2-g{commit[:7]}"
    assert source.git("log", "--format=%s").split("\n")[0] == "A link [brackets]"
    assert source.git("rev-list", "--count", "HEAD") == "4"
    assert source.git("status", "--porcelain", "--branch") == "## main"
    assert source.git("rev-parse", "origin/main", "HEAD") == f"{commit}\n{commit}"
    of_tag = unpacked(
        pack_commit(mirror, "refs/tags/v1.3", remote.git("rev-parse", "HEAD~1"), SourceSettings()), tmp_path / "tag"
    )
    assert of_tag.git("describe") == "v1.3-1-g" + of_tag.git("rev-parse", "HEAD")[:7]


def test_attributes_of_a_commit_leave_no_file_out(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    commit = remote.commit(a="$Format:%H$\n", b="b", **{".gitattributes": "a export-subst\nb export-ignore\n"})
    remote.push()
    mirror.fetch()
    source = unpacked(pack_commit(mirror, MAIN, commit, SourceSettings()), tmp_path / "workspace")
    assert (source.path / "a").read_text() == "$Format:%H$\n"
    assert (source.path / "b").exists()


def test_files_are_as_their_attributes_ask_of_a_checkout(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    """The files of a pushed commit are byte for byte those of a checkout, and git finds no change."""
    wide = "wide ü\n".encode("utf-16")
    (remote.path / "wide.u16").write_bytes(wide)
    (remote.path / "not.u16le").write_bytes("ü\n".encode("utf-16-le"))
    attributes = """
        *.u16 text working-tree-encoding=UTF-16
        *.u16le text working-tree-encoding=UTF-16LE
        *.bat text eol=crlf
        *.id ident
        *.bin -text
        *.odd text working-tree-encoding=NO-SUCH
    """
    text = {"crlf.bat": "a\nb\n", "head.id": "$Id$\n", "raw.bin": "a\r\n", "odd.odd": "odd\n"}
    remote.commit(**{".gitattributes": attributes})
    remote.git("config", "core.safecrlf", "false")
    (remote.path / ".gitattributes").write_text(attributes.replace("working-tree-encoding=NO-SUCH", ""))
    commit = remote.commit(**text)
    remote.push()
    checkout = tmp_path / "checkout"
    remote.git("-c", "core.autocrlf=false", "clone", "--quiet", str(remote.bare), str(checkout))
    mirror.fetch()
    (mirror.path / "info" / "attributes").write_text("* -ident\n")  # as an earlier release made it
    mirror.fetch()
    source = unpacked(pack_commit(mirror, MAIN, commit, SourceSettings()), tmp_path / "workspace")
    for path in checkout.iterdir():
        if path.is_file():
            assert (source.path / path.name).read_bytes() == path.read_bytes(), path.name
    assert (source.path / "crlf.bat").read_bytes() == b"a\r\nb\r\n"
    assert (source.path / "wide.u16").read_bytes().decode("utf-16") == "wide ü\n"
    assert (source.path / "head.id").read_text().startswith("$Id: ")
    assert source.git("status", "--porcelain") == ""


def test_hooks_and_settings_of_the_repository_do_not_run(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    ran = tmp_path / "ran"
    commit = remote.commit(a="1")
    remote.push()
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {ran}\n")
    script.chmod(0o755)
    for name in ("post-checkout", "reference-transaction", "pre-auto-gc", "post-index-change"):
        (remote.bare / "hooks" / name).write_text(script.read_text())
        (remote.bare / "hooks" / name).chmod(0o755)
    for key in ("core.fsmonitor", "uploadpack.packObjectsHook", "core.sshCommand", "core.alternateRefsCommand"):
        subprocess.run(("git", "-C", remote.bare, "config", key, script), check=True)
    mirror.fetch()
    assert pack_commit(mirror, MAIN, commit, SourceSettings())
    assert not ran.exists()


def test_a_link_in_a_commit_touches_nothing_on_the_host(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (remote.path / "out").symlink_to(victim)
    modules = '[submodule "../../x"]\n\tpath = x\n\turl = https://example.org/x.git\n'
    remote.path.joinpath("x").write_text("file")
    commit = remote.commit("Hostile", a__b="1")
    remote.push()
    mirror.fetch()
    archive = tmp_path / "source.tar.gz"
    archive.write_bytes(pack_commit(mirror, MAIN, commit, SourceSettings()))
    assert victim.read_text() == "untouched"
    with pytest.raises(Exception, match="a link that leads out of it"):
        write_manifest(archive, tmp_path / "manifest", 2**20)
    (remote.path / ".gitmodules").write_text(modules)
    remote.commit("Hostile submodule")
    remote.push()
    with pytest.raises(GitError, match="gitmodules"):
        mirror.fetch()


def test_a_commit_with_a_git_folder_is_refused(remote: GitRepository, mirror: Mirror):
    blob = remote.git("hash-object", "-w", "--stdin", data=b"[core]\n\tfsmonitor = touch /tmp/pwned\n")
    inner = remote.git("mktree", data=f"100644 blob {blob}\tconfig\n".encode())
    tree = remote.git("mktree", data=f"040000 tree {inner}\t.git\n".encode())
    remote.push(f"{remote.git('commit-tree', tree, '-m', 'Hostile')}:{MAIN}")
    with pytest.raises(GitError, match="hasDotgit"):
        mirror.fetch()


def test_refs_with_hostile_names_are_names(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    commit = remote.commit(a="1")
    names = ["--upload-pack=touch", "$(touch,x)", "ü", "a;b", "x" * 200]
    remote.push(*(f"{commit}:refs/heads/{name}" for name in names))
    assert mirror.fetch().commits.keys() == {f"refs/heads/{name}" for name in names}
    source = unpacked(pack_commit(mirror, f"refs/heads/{names[0]}", commit, SourceSettings()), tmp_path / "source")
    assert source.git("symbolic-ref", "HEAD") == f"refs/heads/{names[0]}"


def test_a_repository_over_its_limit_is_given_up(remote: GitRepository, tmp_path: Path):
    remote.commit(a="a", large="".join(f"{number * 7919 % 999_983}\n" for number in range(100_000)))
    remote.push()
    mirror = mirror_of(tmp_path, str(remote.bare), max_mirror_gb=1e-6)
    with pytest.raises(GitError, match=r"raise repositories\.max_mirror_gb"):
        mirror.fetch()
    assert not mirror.path.exists()
    with pytest.raises(GitError, match="took more than 0 s"):
        mirror_of(tmp_path, str(remote.bare), fetch_timeout=1e-9).fetch()


@pytest.mark.parametrize("url", ["ext::sh -c touch% /tmp/x", "file:///etc", "http://127.0.0.1/x", "-u./x", "fd::7"])
def test_other_protocols_are_closed(tmp_path: Path, url: str):
    with pytest.raises(GitError, match="not allowed"):
        mirror_of(tmp_path, url).fetch()


def test_a_mirror_that_a_crash_left_is_used_or_made_anew(remote: GitRepository, mirror: Mirror):
    remote.commit(a="1")
    remote.push()
    mirror.fetch()
    for name in ("shallow.lock", "packed-refs.lock", "refs/heads/main.lock", "objects/pack/tmp_pack_x"):
        (mirror.path / name).touch()
    commit = remote.commit(a="2")
    remote.push()
    assert mirror.fetch().commits == {MAIN: commit}
    assert list(mirror.path.rglob("*.lock")) == list(mirror.path.rglob("tmp_*")) == []
    for each in (mirror.path / "objects").rglob("*"):
        if each.is_file():
            each.chmod(0o600)
            each.write_bytes(b"")
    commit = remote.commit(a="3")
    remote.push()
    assert mirror.fetch().commits == {MAIN: commit}
    assert mirror.commit(commit).message == "Change"


def test_a_mirror_with_a_lost_file_is_made_anew_next_time(remote: GitRepository, mirror: Mirror):
    commit = remote.commit(a="1")
    remote.push()
    mirror.fetch()
    for each in (mirror.path / "objects" / "pack").iterdir():
        each.unlink()
    with pytest.raises(GitError, match="git archive failed"):
        pack_commit(mirror, MAIN, commit, SourceSettings())
    mirror.fetch()
    assert pack_commit(mirror, MAIN, commit, SourceSettings())


def test_a_mirror_that_was_lost_is_made_anew(remote: GitRepository, mirror: Mirror):
    commit = remote.commit(a="1")
    remote.push()
    mirror.fetch()
    mirror.remove()
    assert mirror_of(mirror.folder.parents[1], str(remote.bare)).fetch().commits == {MAIN: commit}


def test_changed_files_are_those_in_which_two_commits_differ(remote: GitRepository, mirror: Mirror):
    first = remote.commit(kept="1", changed="1", removed="1", old="a name\n" * 9)
    remote.git("rm", "--quiet", "removed")
    remote.git("mv", "old", "new")
    second = remote.commit("Two", changed="2", folder__ü="1")
    remote.push()
    mirror.fetch()
    assert mirror.changed(first, second) == ("changed", "folder/ü", "new", "old", "removed")
    assert mirror.changed(first, first) == ()
    assert mirror.changed(None, second) is None
    assert mirror.changed("0" * 40, second) is None


def test_a_merge_base_is_the_last_commit_in_common(remote: GitRepository, mirror: Mirror):
    base = remote.commit(a="1")
    remote.git("checkout", "--quiet", "-b", "other")
    other = remote.commit("Other", b="1")
    remote.git("checkout", "--quiet", "main")
    main = remote.commit("Main", c="1")
    remote.git("checkout", "--quiet", "--orphan", "alone")
    alone = remote.commit("Alone", d="1")
    remote.push("main", "other", "alone")
    mirror.fetch()
    assert mirror.merge_base(main, other) == base
    assert mirror.merge_base(main, alone) is None
    assert mirror.merge_base(main, "0" * 40) is None


def test_the_default_branch_and_its_merge_base_are_in_a_source(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    base = remote.commit("Base", a="1")
    remote.git("checkout", "--quiet", "-b", "feature")
    for number in range(5):
        commit = remote.commit(f"Feature {number}", b=str(number))
    remote.git("checkout", "--quiet", "main")
    for number in range(9):
        main = remote.commit(f"Main {number}", c=str(number))
    remote.push("main", "feature")
    branches = mirror.fetch().branches("main", None, "gone")
    assert branches == {"main": main}
    feature = "refs/heads/feature"
    archive = pack_commit(mirror, feature, commit, SourceSettings(depth=2), branches)
    assert archive == pack_commit(mirror, feature, commit, SourceSettings(depth=2), branches)
    source = unpacked(archive, tmp_path / "workspace")
    assert source.git("merge-base", "HEAD", "origin/main") == base
    assert source.git("diff", "--name-only", "origin/main...") == "b"
    assert source.git("rev-parse", "origin/HEAD") == main
    assert source.git("status", "--porcelain") == ""
    ahead = unpacked(pack_commit(mirror, MAIN, commit, SourceSettings(), branches), tmp_path / "fork")
    assert ahead.git("rev-parse", "origin/main", "HEAD") == f"{main}\n{commit}", "a fork's main is taken for origin's"
    apart = remote.git("commit-tree", "HEAD^{tree}", "-m", "Apart")
    remote.push(f"{apart}:refs/heads/apart")
    mirror.fetch()
    alone = unpacked(pack_commit(mirror, "refs/heads/apart", apart, SourceSettings(), branches), tmp_path / "apart")
    assert alone.git("rev-parse", "origin/main") == main


@pytest.mark.parametrize("name", ["main/fix", "main", "fix"])
def test_a_branch_of_a_fork_is_none_of_the_repositorys(
    remote: GitRepository, mirror: Mirror, tmp_path: Path, name: str
):
    """In a fork main/fix may exist, although in the repository main does."""
    main = remote.commit("Base", a="1")
    remote.push("main")
    heads = mirror.fetch()
    commit = remote.commit("Fix", a="2")
    remote.push("HEAD:refs/pull/1/head")
    with mirror.borrowed(str(remote.bare)) as fork:
        fork.fetch_ref("refs/pull/1/head")
        archive = pack_commit(
            fork, f"refs/heads/{name}", commit, SourceSettings(), heads.branches("main"), Extras(from_stranger=True)
        )
    source = unpacked(archive, tmp_path / "workspace")
    assert source.git("rev-parse", "HEAD", "origin/main") == f"{commit}\n{main}"
    assert source.git("symbolic-ref", "HEAD") == f"refs/heads/{name}"
    assert source.git("branch", "--remotes", "--format=%(refname)").split() == [
        "refs/remotes/origin/HEAD",
        "refs/remotes/origin/main",
    ]


def test_a_branch_below_a_later_one_is_packed(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    """The branch of a pull request may be gone by now, and its name be the folder of the target."""
    commit = remote.commit("Base", a="1")
    remote.push("main")
    mirror.fetch()
    archive = pack_commit(mirror, "refs/heads/topic", commit, SourceSettings(), {"topic/next": commit})
    source = unpacked(archive, tmp_path / "workspace")
    assert source.git("symbolic-ref", "HEAD") == "refs/heads/topic"


def test_a_branch_may_become_the_folder_of_another(remote: GitRepository, mirror: Mirror):
    commit = remote.commit("Base", a="1")
    remote.push("main", "main:topic", "main:refs/tags/v1")
    mirror.fetch()
    remote.push(":topic", ":refs/tags/v1")
    remote.push("main:topic/next", "main:refs/tags/v1/next")
    assert mirror.fetch().commits == {
        "refs/heads/main": commit,
        "refs/heads/topic/next": commit,
        "refs/tags/v1/next": commit,
    }
    remote.push(":topic/next")
    remote.push("main:topic")
    assert "refs/heads/topic" in mirror.fetch().commits
