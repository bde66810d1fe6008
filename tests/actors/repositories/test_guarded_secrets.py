"""A secret of the branch main and the gate of production, and who wants it elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors.ir import IrSettings, load
from storage import Build, NewBuild, SecretNotAllowed, SecretScope, VerifiedEvent
from tests.actors.repositories.world import World

GATE = "{on: {push: true}, jobs: {a: {image: debian:12, run: env, secrets: TOKEN, gate: {environment: production}}}}"
NO_GATE = GATE.replace(", gate: {environment: production}", "")
STAGING = GATE.replace("production", "staging")
VARIABLES = GATE.replace("run: env", "run: env, env: {CI_BRANCH: main, CI_EVENT: push, GITHUB_REF: refs/heads/main}")
IR = json.dumps(
    {
        "version": "1",
        "jobs": {"a": {"run": "env", "secrets": ["TOKEN"], "gate": {"environment": "production"}}},
    }
)


class Guarded(World):
    """A repository whose organization has the secret TOKEN for main and production alone."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.scope = SecretScope(self.repository.organization_id)
        self.storage.secrets.put(
            self.scope, "TOKEN", "hunter2-and-a-half", {"branches": ["main"], "environments": ["production"]}
        )
        self.storage.repository_checks.record_heads(self.repository, {})

    def pushed(self, ref: str, pipeline: str) -> Build:
        """Push a commit with this pipeline to a ref; return its build."""
        self.remote.commit(f"To {ref}", **{".hm__ci.yml": pipeline})
        self.remote.push("--force", f"HEAD:{ref}")
        self.storage.repository_checks.hasten(self.repository.id)
        self.check()
        return self.newest()

    def asked(self, **fields: object) -> Build:
        """Make a build as this is said of it."""
        new = NewBuild("main", "c0ffee", pipeline_ir=IR, **fields)  # type: ignore[arg-type] # by names
        return self.storage.builds.create(self.pipeline, new, load(IR, IrSettings()).jobs)

    def newest(self) -> Build:
        return self.storage.builds.page(self.pipeline.id, 1, None).rows[0]

    def secrets(self, build: Build) -> dict[str, str]:
        (job,) = self.storage.jobs.of_build(build.id)
        return self.storage.job_secrets.resolve(build, job)


@pytest.fixture
def world(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


def test_main_has_it_and_twelve_ways_lead_nowhere(world: Guarded) -> None:
    """A pushed branch, a tag, a pull request, a fork, or a request that says it is main."""
    of_main = world.pushed("refs/heads/main", GATE)
    assert world.secrets(of_main) == {"TOKEN": "hunter2-and-a-half"}
    pushed = [
        world.pushed(ref, pipeline)
        for ref, pipeline in (
            ("refs/heads/main", NO_GATE),
            ("refs/heads/main", STAGING),
            ("refs/heads/topic", GATE),
            ("refs/heads/topic", VARIABLES),
            ("refs/heads/MAIN", GATE),
            ("refs/heads/main2", GATE),
            ("refs/heads/refs/heads/main", GATE),
            ("refs/heads/merge-queue/main", GATE),
        )
    ]
    asked = [
        world.asked(verified_event=VerifiedEvent.TAG, verified_ref="refs/tags/main"),
        world.asked(verified_event=VerifiedEvent.PULL_REQUEST, verified_ref="refs/pull/7/head"),
        world.asked(env={"CI_BRANCH": "main", "CI_EVENT": "push"}, source="webhook"),
        world.asked(rebuild_of=of_main.number, verified_event=VerifiedEvent.MANUAL),
    ]
    tried = [*pushed, *asked]
    assert len({each.id for each in tried}) == 12
    for build in tried:
        with pytest.raises(SecretNotAllowed):
            world.secrets(build)
    fork = world.asked(untrusted_origin="pull/1/7", from_fork=True, verified_ref="refs/heads/main")
    assert world.secrets(fork) == {}
