"""Notifications of a pipeline: made, changed, tested, rotated and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from storage import EndpointAnswer
from tests.api.world import PipelinePath, World

HOOK = "https://hooks.example.org:8443/T0/very-secret"


def create(pipeline: PipelinePath, **fields: Any) -> dict[str, Any]:
    body = {"kind": "webhook", "url": HOOK, **fields}
    answered = pipeline.account.client.simulate_post(f"{pipeline.path}/notifications", json=body)
    assert answered.status_code == 201, answered.text
    made: dict[str, Any] = answered.json
    return made


def test_a_secret_is_shown_once_and_a_url_never(pipeline: PipelinePath):
    made = create(pipeline)
    secret = made.pop("secret")
    assert secret.startswith("whsec_")
    assert made == {
        "id": made["id"],
        "kind": "webhook",
        "events": ["build.finished"],
        "origin": "https://hooks.example.org:8443",
        "to_creator": False,
        "enabled": True,
        "failing_since": None,
        "last_error": None,
        "created_at": "2026-01-02T03:04:05.000000Z",
    }
    listed = pipeline.account.client.simulate_get(f"{pipeline.path}/notifications")
    assert listed.json["data"] == [made]
    for hidden in (secret, "very-secret"):
        assert hidden not in listed.text


def test_a_rotation_gives_another_secret(pipeline: PipelinePath):
    made = create(pipeline)
    path = f"{pipeline.path}/notifications/{made['id']}/rotate"
    rotated = pipeline.account.client.simulate_post(path).json
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != made["secret"]
    slack = create(pipeline, kind="slack")
    path = f"{pipeline.path}/notifications/{slack['id']}/rotate"
    refused = pipeline.account.client.simulate_post(path)
    assert (refused.status_code, refused.json["error"]["code"]) == (409, "notification_without_endpoint")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "pigeon"}, "kind: expected"),
        ({"url": None}, "url: expected the URL"),
        ({"url": "http://"}, "url: expected a URL such as"),
        ({"url": "https://user:word@hooks.example.org/"}, "url: expected no user or password"),
        ({"url": "gopher://hooks.example.org/"}, "url: expected a URL such as"),
        ({"kind": "email"}, "url: expected none for e-mail"),
        ({"events": []}, "events: expected some of"),
        ({"events": ["build.started"]}, "events: expected some of"),
        ({"events": "build.finished"}, "events: expected an array"),
        ({"to_creator": True}, "to_creator: expected only for e-mail"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(pipeline: PipelinePath, fields: dict[str, Any], says: str):
    body = {"kind": "webhook", "url": HOOK, **fields}
    answered = pipeline.account.client.simulate_post(f"{pipeline.path}/notifications", json=body)
    assert (answered.status_code, answered.json["error"]["code"]) == (422, "invalid_body")
    assert answered.json["error"]["message"].startswith(says)
    assert pipeline.account.client.simulate_get(f"{pipeline.path}/notifications").json["data"] == []


def test_absent_fields_stay_as_they_are(pipeline: PipelinePath):
    made = create(pipeline)
    path = f"{pipeline.path}/notifications/{made['id']}"
    changed = pipeline.account.client.simulate_patch(path, json={"enabled": False}).json
    assert changed == {**{name: made[name] for name in changed}, "enabled": False}
    changed = pipeline.account.client.simulate_patch(
        path, json={"url": "https://b.example", "events": ["build.recovered"]}
    )
    assert (changed.json["origin"], changed.json["events"]) == ("https://b.example", ["build.recovered"])
    email = create(pipeline, kind="email", url=None)
    refused = pipeline.account.client.simulate_patch(f"{pipeline.path}/notifications/{email['id']}", json={"url": HOOK})
    assert refused.json["error"]["message"] == "url: expected none for the kind email"


def test_a_test_is_a_delivery_that_can_be_sent_again(pipeline: PipelinePath, world: World):
    path = f"{pipeline.path}/notifications/{create(pipeline)['id']}"
    tested = pipeline.account.client.simulate_post(f"{path}/test")
    assert (tested.status_code, tested.json["state"], world.engine.notifications) == (202, "waiting", 1)
    found = world.storage.notification_deliveries.by_uuid(tested.json["id"])
    assert found is not None
    world.storage.notification_deliveries.note(found, EndpointAnswer(500, "no", 12, "the endpoint answers 500"))
    (listed,) = pipeline.account.client.simulate_get(f"{path}/deliveries").json["data"]
    assert (listed["http_status"], listed["answer"], listed["duration_ms"], listed["attempts"]) == (500, "no", 12, 1)
    again = pipeline.account.client.simulate_post(f"{path}/deliveries/{listed['id']}/redeliver")
    assert (again.status_code, again.json["attempts"], world.engine.notifications) == (202, 0, 2)
    assert again.json["body"] == tested.json["body"]


def test_a_test_of_e_mail_goes_to_whoever_asks(pipeline: PipelinePath, world: World):
    email = create(pipeline, kind="email", url=None)
    tested = pipeline.account.client.simulate_post(f"{pipeline.path}/notifications/{email['id']}/test").json
    assert tested["recipient"] == pipeline.account.email
    expected = "delivered" if world.engine.sends_mail else "skipped"
    assert tested["state"] == expected


def test_deliveries_of_another_notification_are_not_found(pipeline: PipelinePath):
    first, second = (create(pipeline)["id"] for _ in range(2))
    client = pipeline.account.client
    delivery = client.simulate_post(f"{pipeline.path}/notifications/{first}/test").json["id"]
    path = f"{pipeline.path}/notifications/{second}/deliveries/{delivery}/redeliver"
    assert client.simulate_post(path).json["error"]["code"] == "notification_delivery_not_found"


def test_notifications_of_another_pipeline_are_not_found(pipeline: PipelinePath, world: World):
    made = create(pipeline)
    other = world.sign_up("other@example.org").pipeline()
    for path in ("", "/test", "/rotate"):
        method = "DELETE" if path == "" else "POST"
        answered = other.account.client.simulate_request(method, f"{other.path}/notifications/{made['id']}{path}")
        assert (answered.status_code, answered.json["error"]["code"]) == (404, "notification_not_found")


def test_a_pipeline_has_at_most_twenty(pipeline: PipelinePath):
    for _ in range(20):
        create(pipeline)
    body = {"kind": "webhook", "url": HOOK}
    answered = pipeline.account.client.simulate_post(f"{pipeline.path}/notifications", json=body)
    assert (answered.status_code, answered.json["error"]["code"]) == (409, "too_many_notifications")


def test_an_account_may_want_no_mail_about_builds(pipeline: PipelinePath, world: World):
    client = pipeline.account.client
    assert client.simulate_get("/api/v0/user/mail").json == {"builds": True}
    assert client.simulate_patch("/api/v0/user/mail", json={"builds": False}).json == {"builds": False}
    assert world.storage.mail_opt_outs.has(pipeline.account.email)
    assert client.simulate_patch("/api/v0/user/mail", json={"builds": True}).json == {"builds": True}
    assert not world.storage.mail_opt_outs.has(pipeline.account.email)


def test_a_build_knows_who_created_it(pipeline: PipelinePath):
    build = pipeline.build()
    assert build.stored.created_by == pipeline.account.user.id
    again = pipeline.account.client.simulate_post(f"{build.path}/rebuild").json["number"]
    found = pipeline.account.world.storage.builds.by_number(build.stored.pipeline_id, again)
    assert found is not None
    assert found.created_by == pipeline.account.user.id
