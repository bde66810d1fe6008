"""Names on the command line: ORG/PIPELINE, ORG/PIPELINE/NUMBER, and the first letters of an id."""

from __future__ import annotations

from dataclasses import dataclass  # and not `immutable`: `--help` comes here, and imports no storage

import click

from ci_daemon.command.support.session import Failure

_SHORT_ID = 8


@dataclass(frozen=True, slots=True)
class PipelineName:
    """A pipeline by its organization's slug and its own."""

    org: str
    pipeline: str

    @classmethod
    def parse(cls, text: str) -> PipelineName:
        """Return the name in ORG/PIPELINE. Raises Failure."""
        org, _, pipeline = text.partition("/")
        if not org or not pipeline or "/" in pipeline:
            raise Failure(f'"{text}" is not the name of a pipeline: write ORG/PIPELINE, as in acme/web')
        return cls(org, pipeline)

    @property
    def names(self) -> dict[str, str]:
        """The names in the paths of operations."""
        return {"org": self.org, "pipeline": self.pipeline}

    @property
    def known_lines(self) -> tuple[str, ...]:
        """The lines by which a shell completes it."""
        return f"org/{self.org}", f"pipeline/{self}"

    def __str__(self) -> str:
        return f"{self.org}/{self.pipeline}"


@dataclass(frozen=True, slots=True)
class BuildName:
    """A build by its organization's slug, its pipeline's, and its number."""

    org: str
    pipeline: str
    number: int

    @classmethod
    def parse(cls, text: str) -> BuildName:
        """Return the name in ORG/PIPELINE/NUMBER. Raises Failure."""
        org, _, rest = text.partition("/")
        pipeline, _, number = rest.partition("/")
        if not (org and pipeline and number.isascii() and number.isdecimal()):
            raise Failure(f'"{text}" is not the name of a build: write ORG/PIPELINE/NUMBER, as in acme/web/12')
        return cls(org, pipeline, int(number))

    @property
    def names(self) -> dict[str, str]:
        """The names in the paths of operations."""
        return {"org": self.org, "pipeline": self.pipeline, "number": str(self.number)}

    @property
    def of_pipeline(self) -> PipelineName:
        """The name of its pipeline."""
        return PipelineName(self.org, self.pipeline)

    @property
    def known_lines(self) -> tuple[str, ...]:
        """The lines by which a shell completes it."""
        return f"build/{self}", *self.of_pipeline.known_lines

    def page(self, pages_url: str) -> str:
        """Return the address of its page, where a service's pages are below ``pages_url``."""
        return f"{pages_url}/{self.org}/pipelines/{self.pipeline}/builds/{self.number}"

    def numbered(self, number: int) -> BuildName:
        """Return the name of another build of the pipeline."""
        return BuildName(self.org, self.pipeline, number)

    def __str__(self) -> str:
        return f"{self.org}/{self.pipeline}/{self.number}"


build_argument = click.argument("name", metavar="ORG/PIPELINE/NUMBER", type=BuildName.parse)
pipeline_argument = click.argument("name", metavar="ORG/PIPELINE", type=PipelineName.parse)


def short_id(uuid: str) -> str:
    """Return the first letters of an id, enough to tell it from others on a screen."""
    return uuid[:_SHORT_ID]
