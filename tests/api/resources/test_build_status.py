"""Badges and the feed for monitors: what they show, to whom, and how they are stored."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from falcon import testing

from storage import BuildState, NewBuild, Role
from tests.api.world import Account, PipelinePath, World

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def public(ada: Account) -> PipelinePath:
    return ada.pipeline("Open", visibility="public")


def end(world: World, pipeline: PipelinePath, state: BuildState, **fields: str) -> None:
    """Make a build that ends in a state."""
    world.storage.builds.move(pipeline.build(**fields).stored.id, BuildState.SCHEDULED, state)


def badge(client: testing.TestClient, account: Account, name: str, **options: object) -> testing.Result:
    return client.simulate_get(f"/badges/{account.org}/{name}.svg", **options)


def said(answered: testing.Result) -> str | None:
    """Return what a badge says."""
    assert answered.headers["Content-Type"] == "image/svg+xml"
    return ET.fromstring(answered.content).findtext(f"{SVG}title")


def projects(client: testing.TestClient) -> dict[str, str]:
    """Return the names in the feed with their status, in its order."""
    answered = client.simulate_get("/cc.xml")
    assert (answered.status_code, answered.headers["Content-Type"]) == (200, "application/xml")
    return {each.attrib["name"]: each.attrib["lastBuildStatus"] for each in ET.fromstring(answered.content)}


def test_a_badge_shows_the_latest_build_to_anyone(world: World, ada: Account, public: PipelinePath):
    assert said(badge(world.anonymous, ada, "open")) == "Open: no builds"
    end(world, public, BuildState.PASSED)
    assert said(badge(world.anonymous, ada, "open")) == "Open: passed"
    public.build()
    answered = badge(world.anonymous, ada, "open")
    assert (answered.status_code, said(answered)) == (200, "Open: scheduled")


def test_a_badge_is_of_the_default_branch_or_the_one_named(world: World, ada: Account, public: PipelinePath):
    end(world, public, BuildState.PASSED)
    end(world, public, BuildState.FAILED, branch="fix/a&b")

    assert said(badge(world.anonymous, ada, "open")) == "Open: passed"
    assert said(badge(world.anonymous, ada, "open", params={"branch": ""})) == "Open: passed"
    assert said(badge(world.anonymous, ada, "open", params={"branch": "fix/a&b"})) == "Open: failed"
    for unknown in ("FIX/a&b", "fix", "%", "' OR 1=1 --", "\0", "é", "x" * 3000):
        assert said(badge(world.anonymous, ada, "open", params={"branch": unknown})) == "Open: no builds"


def test_a_refused_request_changes_no_badge_and_no_feed(world: World, ada: Account, public: PipelinePath):
    """The row that the answer names stays failed; nobody else's build has failed."""
    end(world, public, BuildState.PASSED)
    for wrong in ({"pipeline_ir": "{"}, {"pipeline_ir": None}):
        answered = public.post(**wrong)
        assert (answered.status_code, answered.json["error"]["code"]) == (422, "build_plan_rejected")
        made = public.account.client.simulate_get(f"{public.path}/builds/{answered.json['error']['build_number']}")
        assert made.json["state"] == "failed"
        assert made.json["error_code"] is not None
    assert said(badge(world.anonymous, ada, "open")) == "Open: passed"
    assert projects(world.anonymous) == {f"{ada.org}/open": "Success"}


def test_a_push_without_a_valid_pipeline_turns_a_badge_red(world: World, ada: Account, public: PipelinePath):
    end(world, public, BuildState.PASSED)
    pipeline = world.storage.pipelines.by_slug(ada.org_id, "open")
    assert pipeline is not None
    world.storage.builds.create_rejected(pipeline, NewBuild("main", "c0ffee", source="webhook"), "render_failed", "why")
    assert said(badge(world.anonymous, ada, "open")) == "Open: failed"


def test_nobody_learns_whether_a_private_pipeline_exists(world: World, ada: Account, bob: Account):
    """Without access, the image and its headers are those of no pipeline at all."""
    end(world, ada.pipeline("Closed"), BuildState.PASSED)
    for client in (world.anonymous, bob.client):
        answers = [
            badge(client, ada, "closed"),
            badge(client, ada, "closed", params={"branch": "main"}),
            badge(client, ada, "nothing"),
            client.simulate_get("/badges/nobody/closed.svg"),
        ]
        assert {(each.status_code, each.content) for each in answers} == {(404, answers[0].content)}
        assert said(answers[0]) == "build: unknown"
        assert "ETag" not in answers[0].headers
        assert len({tuple(set(each.headers) - {"x-request-id"}) for each in answers}) == 1


def test_a_name_with_a_line_break_is_no_path(world: World, ada: Account):
    answered = world.anonymous.simulate_get(f"/badges/{ada.org}/a%0Ab.svg")
    assert (answered.status_code, answered.json["error"]["code"]) == (404, "route_not_found")


def test_a_member_sees_the_badge_of_a_private_pipeline(world: World, ada: Account, bob: Account):
    end(world, ada.pipeline("Closed"), BuildState.FAILED)
    bob.join(ada, Role.MEMBER)

    answered = badge(bob.client, ada, "closed")

    assert (answered.status_code, said(answered)) == (200, "Closed: failed")
    assert answered.headers["Cache-Control"] == "private, no-cache"


def test_a_wrong_token_is_refused_rather_than_ignored(world: World, ada: Account, public: PipelinePath):
    wrong = testing.TestClient(world.app, headers={"Authorization": "Bearer nobody"})
    for answered in (badge(wrong, ada, "open"), wrong.simulate_get("/cc.xml")):
        assert (answered.status_code, answered.json["error"]["code"]) == (401, "unauthorized")


def test_a_token_in_the_url_opens_nothing(world: World, ada: Account):
    ada.pipeline("Closed")
    assert badge(world.anonymous, ada, "closed", params={"token": ada.token}).status_code == 404
    assert ada.org not in world.anonymous.simulate_get("/cc.xml", params={"token": ada.token}).text


def test_a_deleted_pipeline_has_no_badge(world: World, ada: Account, public: PipelinePath):
    ada.client.simulate_delete(public.path)
    assert badge(world.anonymous, ada, "open").status_code == 404


@pytest.mark.parametrize("path", ["/badges/{org}/open.svg", "/cc.xml"])
def test_caches_ask_again_and_are_told_if_nothing_changed(world: World, ada: Account, public: PipelinePath, path: str):
    path = path.format(org=ada.org)
    first = world.anonymous.simulate_get(path)
    tag = first.headers["ETag"]
    assert first.headers["Cache-Control"] == "no-cache"
    assert "Authorization" in first.headers["Vary"]

    for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again = world.anonymous.simulate_get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        assert again.headers["Cache-Control"] == "no-cache"
    for unknown in ('"other"', "", "broken"):
        assert world.anonymous.simulate_get(path, headers={"If-None-Match": unknown}).status_code == 200
    head = world.anonymous.simulate_head(path)
    assert (head.status_code, head.headers["ETag"], head.content) == (200, tag, b"")

    end(world, public, BuildState.PASSED)
    changed = world.anonymous.simulate_get(path, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != tag


def test_a_badge_runs_no_scripts_when_it_is_opened_as_a_page(world: World, ada: Account):
    ada.pipeline("<script>alert(1)</script>", visibility="public")
    answered = badge(world.anonymous, ada, "script-alert-1-script")
    assert answered.headers["Content-Security-Policy"] == "default-src 'none'"
    assert answered.headers["X-Content-Type-Options"] == "nosniff"
    assert b"<script" not in answered.content
    assert said(answered) == "<script>alert(1)</script>: no builds"


def test_the_feed_has_public_pipelines_for_anyone(world: World, ada: Account, bob: Account, public: PipelinePath):
    end(world, public, BuildState.FAILED)
    ada.pipeline("Closed")
    end(world, bob.pipeline("Site", visibility="public"), BuildState.PASSED)

    assert projects(world.anonymous) == {f"{ada.org}/open": "Failure", f"{bob.org}/site": "Success"}


def test_the_feed_begins_with_the_callers_own_pipelines(world: World, ada: Account, bob: Account, public: PipelinePath):
    ada.pipeline("Closed")
    bob.pipeline("Site", visibility="public")
    bob.pipeline("Secret")

    assert list(projects(bob.client)) == [f"{bob.org}/site", f"{bob.org}/secret", f"{ada.org}/open"]
    bob.join(ada, Role.MEMBER)
    assert set(projects(bob.client)) == {
        f"{ada.org}/open",
        f"{ada.org}/closed",
        f"{bob.org}/site",
        f"{bob.org}/secret",
    }


def test_the_feed_shows_the_default_branch_alone(world: World, public: PipelinePath, ada: Account):
    end(world, public, BuildState.PASSED)
    end(world, public, BuildState.FAILED, branch="other")
    public.build()
    (project,) = ET.fromstring(world.anonymous.simulate_get("/cc.xml").content)

    assert project.attrib["activity"] == "Building"
    assert (project.attrib["lastBuildStatus"], project.attrib["lastBuildLabel"]) == ("Success", "1")
    assert project.attrib["webUrl"] == f"https://ci.example.org{public.path.removeprefix('/api/v0/organizations')}"
