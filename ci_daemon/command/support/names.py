"""Names of pipelines and builds on the command line, and the records that they name."""

from __future__ import annotations

from dataclasses import dataclass  # and not `immutable`: `--help` comes here, and imports no storage
from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.session import Failure, Remembered

if TYPE_CHECKING:
    from storage import Build, Organization, Pipeline, Storage

_SHORT_ID = 8


@dataclass(frozen=True, slots=True)
class PipelineName(Remembered):
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
class BuildName(Remembered):
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


def find_organization(storage: Storage, slug: str) -> Organization:
    """Return an organization by its slug. Raises Failure."""
    organization = storage.organizations.by_slug(slug)
    if organization is None:
        raise Failure(f"there is no organization {slug}: `ci-daemon org list` shows all")
    return organization


def find_pipeline(storage: Storage, organization: str, slug: str) -> Pipeline:
    """Return a pipeline by its organization's slug and its own. Raises Failure."""
    pipeline = storage.pipelines.by_slug(find_organization(storage, organization).id, slug)
    if pipeline is None:
        raise Failure(f"{organization} has no pipeline {slug}: `ci-daemon pipeline list {organization}` shows all")
    return pipeline


def find_build(storage: Storage, name: BuildName) -> Build:
    """Return a build by its name. Raises Failure."""
    build = storage.builds.by_number(find_pipeline(storage, name.org, name.pipeline).id, name.number)
    if build is None:
        pipeline = name.of_pipeline
        raise Failure(f"{pipeline} has no build {name.number}: `ci-daemon build list {pipeline}` shows all")
    return build
