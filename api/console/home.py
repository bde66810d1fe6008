"""Home, and the page of an organization: what is broken, what runs, and how each pipeline stands."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from api.console.errors import Page
from api.console.insights import BAR_HEIGHT, Figures, figures_of
from api.console.pages import redirect
from api.console.pipelines import BuildLine, host_pages, why_of
from api.errors.catalog import ApiError
from storage import RESERVED_SLUGS, Role, immutable, slugify

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import falcon

    from api.console.site import Site
    from storage import Build, Organization, Pipeline, Repository

_MOST_ORGANIZATIONS = 50
_MOST_UNFINISHED = 20
_MOST_PIPELINES = 500
_BARS = 12


@immutable
class PipelineLine:
    """A pipeline in a list: its newest build, if any, and the figures of its last ones.

    ``broken`` is the build that broke its default branch; None if that is not broken.
    """

    organization: Organization
    pipeline: Pipeline
    favourite: bool
    newest: BuildLine | None
    broken: BuildLine | None
    figures: Figures

    @property
    def repository(self) -> str:
        """The name of its repository; empty if it has none."""
        return self.pipeline.repo_name or ""


@immutable
class PipelineGroup:
    """The pipelines of a repository; ``name`` is empty if they are not to be named together."""

    name: str
    lines: tuple[PipelineLine, ...]


@immutable
class Board:
    """An organization's broken pipelines, the longest last, its unfinished builds, and all its pipelines."""

    organization: Organization
    broken: tuple[PipelineLine, ...]
    unfinished: tuple[BuildLine, ...]
    groups: tuple[PipelineGroup, ...]
    any: bool
    built: bool


def board_of(site: Site, organization: Organization, user_id: int, wanted: str = "") -> Board:
    """Return an organization's board, whose groups have the pipelines with ``wanted`` in their name."""
    unfinished = site.storage.build_history.unfinished(organization.id, _MOST_UNFINISHED)
    lines, run = _lines(site, organization, user_id, unfinished)
    broken = [each for each in lines if each.broken is not None]
    shown = [each for each in lines if wanted in each.pipeline.name.lower() or wanted in each.pipeline.slug]
    return Board(
        organization,
        tuple(sorted(broken, key=lambda each: each.broken.build.id if each.broken else 0, reverse=True)),
        run,
        tuple(groups_of(shown)),
        bool(lines),
        any(each.newest is not None for each in lines),
    )


def pipelines_of(site: Site, organization: Organization, user_id: int, repository: Repository) -> list[PipelineGroup]:
    """Return the pipelines of a connected repository, favourites first."""
    lines, _ = _lines(site, organization, user_id, ())
    like = [each for each in lines if each.repository in {"", repository.repo_name}]
    found = site.storage.repositories.of_pipelines(each.pipeline for each in like)
    return groups_of(
        each for each in like if (its := found.get(each.pipeline.id)) is not None and its.id == repository.id
    )


def _lines(
    site: Site, organization: Organization, user_id: int, unfinished: Sequence[Build]
) -> tuple[list[PipelineLine], tuple[BuildLine, ...]]:
    """Return the lines of an organization's pipelines, and those of builds that have not ended."""
    history = site.storage.build_history
    standings = site.storage.standings.of_organization(organization.id, user_id, _MOST_PIPELINES)
    pipelines = {each.pipeline.id: each.pipeline for each in standings}
    recent = history.recent(organization.id, _BARS)
    shown = {found for each in standings for found in (each.newest_id, each.broken_id) if found is not None}
    builds = history.listed(shown | {each.id for each in unfinished})
    pages = host_pages(site, (each.build for each in builds.values()), pipelines.values())

    def line(build_id: int | None, *, explained: bool = True) -> BuildLine | None:
        found = None if build_id is None else builds.get(build_id)
        if found is None:
            return None
        build, pipeline = found.build, pipelines.get(found.build.pipeline_id)
        why = why_of(site, build) if explained else ""
        return BuildLine(build, why, found.people, "" if pipeline is None else pipeline.name, pages[build.id])

    lines = [
        PipelineLine(
            organization,
            each.pipeline,
            each.favourite,
            line(each.newest_id, explained=False),
            line(each.broken_id),
            figures_of(recent.get(each.pipeline.id, [])),
        )
        for each in standings
    ]
    return lines, tuple(found for each in unfinished if (found := line(each.id)) is not None)


def groups_of(lines: Iterable[PipelineLine]) -> list[PipelineGroup]:
    """Return pipelines by their repository, favourites first; one that is alone there has no heading."""
    ordered = sorted(
        lines,
        key=lambda each: (
            not each.favourite,
            "" if each.favourite else each.repository.casefold(),
            each.pipeline.name.casefold(),
        ),
    )
    groups: list[PipelineGroup] = []
    for (favourite, repository), found in groupby(
        ordered, lambda each: (each.favourite, "" if each.favourite else each.repository)
    ):
        together = tuple(found)
        name = "Favourites" if favourite else repository if len(together) > 1 else ""
        if not name and groups and not groups[-1].name:
            together = (*groups.pop().lines, *together)
        groups.append(PipelineGroup(name, together))
    return groups


class HomePage(Page):
    """``/``."""

    def __init__(self, site: Site, url: str) -> None:
        self._site = site
        self._url = url

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show how the pipelines of the caller's organizations stand; without a session the way to sign in."""
        caller = self._site.access.optional_caller(req)
        if caller is None:
            redirect(req, resp, "login")
            return
        found = self._site.storage.organizations.page(caller.user.id, _MOST_ORGANIZATIONS, None).rows
        boards = [board_of(self._site, organization, caller.user.id) for organization in found]
        broken = sorted(
            (each for board in boards for each in board.broken),
            key=lambda each: each.broken.build.id if each.broken else 0,
            reverse=True,
        )
        self._site.pages.show(
            req,
            resp,
            "pipelines/home",
            boards=boards,
            broken=broken,
            unfinished=[each for board in boards for each in board.unfinished],
            **rows_of(self._site, req),
            url=self._url,
        )


class OrganizationPage(Page):
    """``/{org}``."""

    def __init__(self, site: Site, url: str) -> None:
        self._site = site
        self._url = url

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show what is broken and runs, and list the pipelines whose name has the text ``q``."""
        if slugify(org) != org or org in RESERVED_SLUGS:
            raise ApiError("route_not_found", "there is no such page")
        member = self._site.access.member(req, org)
        wanted = (req.get_param("q") or "").strip().lower()
        board = board_of(self._site, member.organization, self._site.access.caller(req).user.id, wanted)
        self._site.pages.show(
            req,
            resp,
            "pipelines/organization",
            organization=member.organization,
            admin=member.role.covers(Role.ADMIN),
            board=board,
            wanted=wanted,
            **rows_of(self._site, req),
            url=self._url,
        )


def rows_of(site: Site, req: falcon.Request) -> dict[str, object]:
    """Return what pages need for the rows of pipelines."""
    return {"bar_height": BAR_HEIGHT, "bars": _BARS, "form_token": site.form_token(req)}
