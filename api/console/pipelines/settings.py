"""The settings of a pipeline: fields, schedules, secrets and badge; and the form that starts a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.pages import Page
from api.errors.catalog import ApiError
from storage import Role, SecretScope, Visibility

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from api.console.site import Site

_MOST_SCHEDULES = 100


class PipelineSettingsPage(Page):
    """``/{org}/pipelines/{pipeline}/settings``."""

    def __init__(self, site: Site, url: str) -> None:
        self._site = site
        self._url = url

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Show the settings to a member; only admins change them."""
        member, found = self._site.access.pipeline(req, org, pipeline)
        storage = self._site.storage
        self._site.pages.show(
            req,
            resp,
            "pipelines/settings",
            org=org,
            pipeline=found,
            admin=member.role.covers(Role.ADMIN),
            public=found.visibility is Visibility.PUBLIC,
            schedules=storage.schedules.page(found.id, _MOST_SCHEDULES, None).rows,
            secrets=storage.secrets.names(SecretScope(found.organization_id, found.id)),
            form_token=self._site.form_token(req),
            url=self._url,
        )


def settings_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``updatePipeline`` for the form of the settings."""
    strict_shell = {"yes": True, "no": False, "": None}
    return {
        **{
            name: strict_shell[given]
            for name, given in fields.items()
            if name == "strict_shell" and given in strict_shell
        },
        "name": fields.get("name", ""),
        "default_branch": fields.get("default_branch", ""),
        "description": fields.get("description") or None,
        "visibility": fields.get("visibility", ""),
        "allow_manual": fields.get("allow_manual") == "yes",
        "fail_fast": fields.get("fail_fast") == "yes",
    }


def build_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``createBuild`` for its form. Raises ApiError ``invalid_body``."""
    texts = {name: fields[name] for name in ("branch", "commit", "message") if fields.get(name)}
    sources = {name: fields[name] for name in ("source_url", "pipeline_ir") if fields.get(name, "").strip()}
    debug = fields.get("debug") == "yes"
    return {**texts, **sources, "env": _env(fields.get("env", "")), "source": "ui", "debug": debug}


def rebuild_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``rebuildBuild`` for its form."""
    return {"debug": fields.get("debug") == "yes", "source": "ui"}


def _env(text: str) -> dict[str, str]:
    """Return the variables of lines ``NAME=value``."""
    found = {}
    for line in filter(str.strip, text.splitlines()):
        name, equals, value = line.partition("=")
        if not equals:
            raise ApiError("invalid_body", f"env: expected NAME=value in each line, not {line[:100]!r}")
        found[name.strip()] = value
    return found
