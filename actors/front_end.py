"""The pages that links in mails, at source hosts and after a payment lead to. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from storage import Build


@immutable
class FrontEnd:
    """The address and the paths of pages: those of the console, or of another front end.

    Pages for tokens get them in the fragment, so that no server's log has them. ``build`` names a build by ``{org}``,
    ``{pipeline}`` and ``{number}``.
    """

    url: str
    verify: str = "/login/verify"
    recover: str = "/login/recover"
    invite: str = "/invites"
    paid: str = "/billing/paid"
    canceled: str = "/billing/canceled"
    build: str = "/{org}/pipelines/{pipeline}/builds/{number}"

    def page(self, path: str) -> str:
        """Return the address of a page."""
        return f"{self.url}{path}"

    def page_of(self, build: Build) -> str:
        """Return the address of a build's page."""
        names = {"org": build.organization_slug, "pipeline": build.pipeline_slug, "number": str(build.number)}
        path = self.build
        for name, value in names.items():
            path = path.replace(f"{{{name}}}", value)
        return self.page(path)
