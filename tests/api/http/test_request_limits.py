"""Limits of the headers and bodies that the server takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from api import HttpSettings
from tests.api.http.served import MAX_BODY, Served, answer, refusal, serving


def organization(name: str) -> bytes:
    return json.dumps({"name": name}).encode()


def test_headers_have_a_limit(served: Served):
    assert refusal(served.get("/api/v0/user", f"X-Long: {'x' * 9000}")) == (431, "headers_too_large")
    assert refusal(served.send(b"GET /" + b"x" * 9000)) == (431, "headers_too_large")
    assert refusal(served.get("/api/v0/user", *["a:"] * 501)) == (431, "headers_too_large")
    assert served.get("/api/v0/user", f"X-Long: {'x' * 6000}").status == 200


def test_too_large_headers_are_refused_with_the_request_id(served: Served):
    """Even if the id is among the headers that were not read to the end."""

    given = "an-id-of-twenty-chars"

    assert served.get("/", f"X-Request-Id: {given}", f"X-Long: {'x' * 9000}").headers["X-Request-Id"] == given


def test_a_body_at_the_limit_is_taken_and_one_byte_more_is_not(served: Served):
    body = organization("x").ljust(MAX_BODY)
    headers = ("Content-Type: application/json", f"Content-Length: {MAX_BODY}")
    assert served.send(served.request("POST", "/api/v0/organizations", *headers, body=body)).status == 201

    too_long = served.request("POST", "/api/v0/organizations", f"Content-Length: {MAX_BODY + 1}")
    assert refusal(served.send(too_long)) == (413, "body_too_large")


def test_only_new_builds_and_deliveries_take_large_bodies(tmp_path: Path):
    small, large = 64 * 2**10, 2**20
    json_of = "Content-Type: application/json"
    with serving(tmp_path / "state", max_body_bytes=large) as served:
        builds = served.ada.pipeline().path + "/builds"
        for path in (
            "/api/v0/organizations",
            "/api/v0/auth/cli/claim",
            "/nowhere",
            "/webhooks/git/1",
            f"{builds}/1",
        ):
            request = served.request("POST", path, json_of, f"Content-Length: {small + 1}", token=False)
            assert refusal(served.send(request)) == (413, "body_too_large")
            chunk = b"%x\r\n" % (small + 1) + b"x" * (small + 1) + b"\r\n0\r\n\r\n"
            request = served.request("POST", path, json_of, "Transfer-Encoding: chunked", body=chunk, token=False)
            assert refusal(served.send(request)) == (413, "body_too_large")

        for path in (builds, f"{builds.partition('/pipelines')[0]}/builds"):
            request = served.request("POST", path, json_of, f"Content-Length: {large}", body=b" " * large)
            assert refusal(served.send(request)) == (400, "malformed_json")

        repositories = served.world.storage.repositories
        connected = repositories.connect(served.ada.org_id, "/srv/git/acme/web.git", "acme/web", 60)
        proof = f"Authorization: Bearer {repositories.mint_token(connected)}"
        headers = (proof, "X-Delivery-Id: 1", f"Content-Length: {large}")
        request = served.request("POST", "/webhooks/git", *headers, body=b" " * large, token=False)
        assert served.send(request).status == 202


@pytest.mark.parametrize("of", ["", "/pipelines/web"])
def test_the_largest_secret_fits_however_it_is_escaped(tmp_path: Path, of: str):
    with serving(tmp_path / "state", max_body_bytes=HttpSettings().max_body_bytes) as served:
        served.ada.pipeline("Web")
        path, json_of = f"{served.ada.path}{of}/secrets/TOKEN", "Content-Type: application/json"
        for size, status in ((2**16, 200), (2**16 + 1, 422)):
            body = b'{"value": "%s"}' % (rb"\u0001" * size)
            request = served.request("PUT", path, json_of, f"Content-Length: {len(body)}", body=body)
            assert served.send(request).status == status

        request = served.request("PUT", path, json_of, f"Content-Length: {400 * 2**10 + 1}")
        assert refusal(served.send(request)) == (413, "body_too_large")


def test_a_body_that_is_too_large_is_not_invited(served: Served):
    request = served.request("POST", "/x", f"Content-Length: {MAX_BODY + 1}", "Expect: 100-continue")
    connection = served.connect()
    connection.sendall(request)

    assert connection.recv(12) == b"HTTP/1.1 413"


def test_a_body_that_fits_is_invited(served: Served):
    body = organization("invited")
    headers = ("Content-Type: application/json", f"Content-Length: {len(body)}", "Expect: 100-continue")
    connection = served.connect()
    connection.sendall(served.request("POST", "/api/v0/organizations", *headers))
    assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"

    assert answer(connection, body).status == 201


def test_a_client_that_sends_too_large_a_body_reads_the_response(served: Served):
    """It is still sending when the body is refused."""

    size = 30 * 2**20
    connection = served.connect()
    connection.sendall(served.request("POST", "/x", f"Content-Length: {size}"))
    try:
        for _ in range(size // 2**16):
            connection.sendall(b"x" * 2**16)
    except ConnectionError:
        pytest.fail("the server reset the connection while the client was sending")

    assert refusal(answer(connection)) == (413, "body_too_large")


def test_chunked_bodies_are_taken_within_the_limit(served: Served):
    headers = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    body = organization("in pieces")
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert served.send(served.request("POST", "/api/v0/organizations", *headers, body=pieces)).status == 201

    block = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    request = served.request("POST", "/api/v0/organizations", *headers, body=block * 6 + b"0\r\n\r\n")
    assert refusal(served.send(request)) == (413, "body_too_large")
