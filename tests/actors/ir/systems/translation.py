"""Files of other systems as plans, for tests of what they mean here."""

from __future__ import annotations

from actors.ir import Built, Plan
from actors.ir.systems import ConvertedPipeline, Omission, Omissions, convert_drone, convert_woodpecker, read, read_all
from ci_daemon.convert.conversion import written
from tests.rendering import planned_yaml

BUILDS = {
    "main": Built(event="push", branch="main"),
    "dev": Built(event="push", branch="dev"),
    "tag": Built(event="tag", branch="v1", tag="v1"),
    "pull": Built(event="pull_request", branch="x", target_branch="main", pull_request="1"),
    "other": Built(event="pull_request", branch="x", target_branch="dev", pull_request="2"),
    "nightly": Built(event="schedule", branch="main"),
    "asked": Built(event="manual", branch="dev"),
}


class Translated:
    """The pipelines of files, and what differs."""

    def __init__(self, found: tuple[tuple[ConvertedPipeline, ...], tuple[Omission, ...]]) -> None:
        self.pipelines, self.omissions = found
        self.texts = {f"{each.slug}.yml": written(each, "") for each in self.pipelines}

    @classmethod
    def woodpecker(cls, *texts: str) -> Translated:
        """Return the pipelines of Woodpecker's files, which are named a, b and so on."""
        names = "abcdef"[: len(texts)]
        return cls(
            convert_woodpecker({name: (read(text), Omissions(name)) for name, text in zip(names, texts, strict=True)})
        )

    @classmethod
    def drone(cls, text: str) -> Translated:
        """Return the pipelines of a file of Drone."""
        return cls(convert_drone(read_all(text, most=9), Omissions(".drone.yml")))

    def plan(self, built: Built | None = None) -> Plan:
        """Return the only pipeline's plan for a build."""
        (plan,) = planned_yaml(self.texts, built).values()
        return plan

    @property
    def jobs(self) -> dict[str, list[str]]:
        """The jobs of the only pipeline, with what each starts from and waits for, by keys."""
        plan = self.plan()
        return {
            job.step_key: [f"{plan.jobs[each.position].step_key} {each.kind}" for each in job.depends_on]
            for job in plan.jobs
        }

    def runs(self, key: str) -> str:
        """Return the builds in which a job runs, by their names."""
        found = []
        for name, built in BUILDS.items():
            if any(job.step_key == key and job.skipped is None for job in self.plan(built).jobs):
                found.append(name)
        return " ".join(found)

    @property
    def losses(self) -> list[str]:
        """The keys of what is lost."""
        return [each.key for each in self.omissions if each.is_loss]

    def told(self, key: str) -> str:
        """Return what is told of a key."""
        return " ".join(each.why for each in self.omissions if each.key == key)
