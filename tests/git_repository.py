"""A real git repository with a working tree, that pushes to a bare one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_WHO = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in {"NAME": "Ann", "EMAIL": "ann@example.org", "DATE": "2026-01-02T03:04:05Z"}.items()
}


class GitRepository:
    """A working tree at ``path`` and its bare remote ``origin``, on the branch main."""

    def __init__(self, folder: Path, name: str = "web") -> None:
        self.path = folder / "tree"
        self.bare = folder / "acme" / f"{name}.git"
        self._environ = {**os.environ, **_WHO, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        self.path.mkdir(parents=True)
        self.bare.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("remote", "add", "origin", str(self.bare))

    def git(self, *arguments: str, data: bytes | None = None) -> str:
        """Run git in the working tree; return its output."""
        done = subprocess.run(
            ("git", *arguments), cwd=self.path, env=self._environ, input=data, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def commit(self, message: str = "Change", **files: str) -> str:
        """Commit files, whose names have ``__`` for ``/``; return the commit."""
        for name, text in files.items():
            path = self.path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def push(self, *arguments: str) -> None:
        """Push to the bare repository."""
        self.git("push", "--quiet", "origin", *(arguments or ("HEAD",)))
