from __future__ import annotations

from typing import Any

import pytest
from falcon import testing

from storage import Role
from tests.api.world import HELLO, Account, PipelinePath, World

BODY = {"repo_name": "acme/demo", "source_slug": "ci", "branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO}


def post(account: Account, path: str | None = None, **fields: Any) -> testing.Result:
    return account.client.simulate_post(f"{path or account.path}/builds", json={**BODY, **fields})


@pytest.fixture
def named(ada: Account) -> PipelinePath:
    """A pipeline with the source slug ci, in the repository acme/demo."""
    return ada.pipeline(source_slug="ci")


def test_a_build_is_created_by_repository_and_source_slug(world: World, ada: Account, named: PipelinePath):
    created = post(ada, message="by name", env={"A": "1"})

    assert created.status_code == 201
    assert (created.json["pipeline_slug"], created.json["number"], created.json["source"]) == ("demo", 1, "api")
    assert ada.client.simulate_get(f"{named.path}/builds/1").json == created.json
    assert world.engine.added == 1


@pytest.mark.parametrize("repo_name", ["ACME/Demo", "acme/DEMO"])
def test_a_repositorys_case_does_not_matter(ada: Account, named: PipelinePath, repo_name: str):
    assert post(ada, repo_name=repo_name).status_code == 201


@pytest.mark.parametrize(
    "other",
    [{"source_slug": "CI"}, {"source_slug": "ci "}, {"repo_name": "acme/demo.git"}, {"repo_name": "acme/dem_"}],
)
def test_a_missing_pipeline_is_named_by_both(ada: Account, named: PipelinePath, other: dict[str, str]):
    answered = post(ada, **other)
    body = BODY | other

    assert answered.status_code == 404
    assert answered.json["error"]["code"] == "pipeline_not_found"
    assert f'"{body["repo_name"]}"' in answered.json["error"]["message"]
    assert f'"{body["source_slug"]}"' in answered.json["error"]["message"]


def test_the_oldest_of_several_is_meant(ada: Account, named: PipelinePath):
    ada.pipeline("later", source_slug="ci", repo_name="Acme/Demo")

    assert post(ada).json["pipeline_slug"] == "demo"
    ada.client.simulate_patch(named.path, json={"source_slug": "other"})
    assert post(ada).json["pipeline_slug"] == "later"
    assert post(ada, source_slug="other").json["pipeline_slug"] == "demo"


def test_pipelines_of_others_are_not_meant(ada: Account, bob: Account, named: PipelinePath):
    assert post(bob).json["error"]["code"] == "pipeline_not_found"
    assert post(bob, ada.path).json["error"]["code"] == "organization_not_found"
    bob.join(ada, Role.MEMBER)
    assert post(bob, ada.path).status_code == 201


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repo_name": None}, "repo_name: expected a string"),
        ({"source_slug": " "}, "source_slug: expected a string that is not blank"),
        ({"source_slug": "s" * 256}, "source_slug: expected at most 255 characters"),
        ({"branch": None}, "branch: expected a string"),
    ],
)
def test_a_wrong_field_is_named(ada: Account, named: PipelinePath, change: dict[str, object], message: str):
    answered = post(ada, **change)

    assert answered.status_code == 422
    assert answered.json["error"]["message"] == message


def test_a_source_url_is_not_a_field_of_this_endpoint(ada: Account, named: PipelinePath):
    answered = post(ada, pipeline_ir=None, source_url="https://example.org/a.tar.gz", source_sha256=7)

    assert answered.json["error"]["code"] == "build_plan_rejected"
    assert "no source to render from" in answered.json["error"]["message"]


@pytest.mark.usefixtures("credit_required")
def test_the_order_of_refusals_is_that_of_builds_by_slug(world: World, ada: Account):
    pipeline = ada.pipeline(source_slug="ci", allow_manual=False)
    ada.grant(-1000)

    def code(**fields: object) -> str:
        return str(post(ada, **fields).json["error"]["code"])

    assert world.anonymous.simulate_post(f"{ada.path}/builds", body="{").status_code == 401
    assert code(source_slug="none", branch=7) == "pipeline_not_found"
    assert code(branch=7, source="cli") == "pipeline_manual_disabled"
    ada.client.simulate_patch(pipeline.path, json={"allow_manual": True})
    assert code(branch=7) == "billing_insufficient_balance"
    ada.grant(1)
    assert code(branch=7, source_b64="!") == "invalid_body"
    assert code(source_b64="!", pipeline_ir="{") == "build_invalid"
    assert code(pipeline_ir="{") == "build_plan_rejected"
    assert [row["state"] for row in ada.client.simulate_get(f"{pipeline.path}/builds").json["data"]] == ["failed"]
