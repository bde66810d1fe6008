"""Errors of `ci-daemon submit`: each is reported with what to do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ci_daemon.command import main
from storage import LedgerSource
from tests.ci_daemon.scripted_service import ScriptedService, scripted_service
from tests.ci_daemon.submit.builds import Submit, passing


def test_a_rejected_pipeline_is_reported_and_its_build_stays(
    service: ScriptedService, submit: Submit, ir: Path, capsys: pytest.CaptureFixture[str]
):
    ir.write_text('{"version": "1"}')
    assert submit() == 1
    assert 'expected version "0", got "1"' in capsys.readouterr().err
    assert service.pipelines() == ["demo"]
    assert service.storage.builds.get(1).error_code == "bad_version"


def test_missing_credit_is_an_error_and_creates_no_pipeline(
    service: ScriptedService, submit: Submit, capsys: pytest.CaptureFixture[str]
):
    service.storage.billing = replace(service.storage.billing, require_credit=True)
    service.storage.ledger.append(1, -1000, LedgerSource.REFUND, None)
    assert submit() == 1
    assert "ci-daemon: " in capsys.readouterr().err
    assert service.pipelines() == []


def test_a_wrong_key_is_reported(submit: Submit, capsys: pytest.CaptureFixture[str]):
    assert submit("--token", "ci_wrong") == 1
    assert "CI_DAEMON_TOKEN" in capsys.readouterr().err


def test_a_missing_key_is_reported(submit: Submit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.delenv("CI_DAEMON_TOKEN")
    assert submit() == 1
    assert "set CI_DAEMON_TOKEN" in capsys.readouterr().err


def test_a_missing_organization_is_reported(submit: Submit, capsys: pytest.CaptureFixture[str]):
    assert submit("--org", "no/body") == 1
    assert "organization" in capsys.readouterr().err


def test_an_invalid_slug_is_reported_with_a_valid_one(
    service: ScriptedService, tree: Path, ir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("CI_DAEMON_URL", service.url)
    monkeypatch.setenv("CI_DAEMON_TOKEN", service.token)
    assert main(["submit", str(tree), "--pipeline", "My Demo", "--ir", str(ir)]) == 1
    assert "give --pipeline my-demo" in capsys.readouterr().err
    assert service.pipelines() == []


def test_a_binary_file_is_reported(submit: Submit, ir: Path, capsys: pytest.CaptureFixture[str]):
    ir.write_bytes(b"\xff\xfe\x00")
    assert submit() == 1
    assert "is not UTF-8 text" in capsys.readouterr().err


def test_a_missing_pipeline_is_reported(submit: Submit, tree: Path, ir: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["submit", str(tree), "--token", "any"]) == 1
    assert f"{tree} has no pipeline in .hm: `ci-daemon new` writes a first one" in capsys.readouterr().err
    (tree / ".hm").mkdir()
    (tree / ".hm" / "ci.ts").write_text("export default pipeline();")
    assert main(["submit", str(tree), "--token", "any"]) == 1
    assert f"{tree} has pipelines in TypeScript or JavaScript alone" in capsys.readouterr().err
    ir.write_text("\n")
    assert submit() == 1
    assert f"{ir} is empty: give --ir the JSON" in capsys.readouterr().err


def test_a_tree_too_large_for_the_service_is_refused_with_advice(
    tmp_path: Path, tree: Path, ir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tree / "large").write_bytes(os.urandom(20_000))
    with scripted_service(tmp_path, max_body_bytes=10_000) as service:
        monkeypatch.setenv("CI_DAEMON_URL", service.url)
        monkeypatch.setenv("CI_DAEMON_TOKEN", service.token)
        assert main(["submit", str(tree), "--ir", str(ir)]) == 1
        assert service.pipelines() == []
    printed = capsys.readouterr().err
    assert "the body is larger than 10000 bytes: exclude files that no step needs in .gitignore, or raise" in printed


def test_an_unreachable_service_is_reported_at_once(submit: Submit, capsys: pytest.CaptureFixture[str]):
    assert submit("--url", "http://127.0.0.1:9") == 1
    assert "no service answers at http://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host",
        "host",
        "http://",
        "http://[::1",
        "http://a b",
        "http://h:port",
        "http://h:99999",
        "http://h\x01",
        "http://user@h",
        "http://h?q",
        "http://h#f",
        f"http://{'a' * 64}",
    ],
)
def test_an_invalid_url_is_reported(submit: Submit, capsys: pytest.CaptureFixture[str], url: str):
    assert submit("--url", url) == 2
    assert f"{url} is not a URL: give one such as https://ci.example.org" in capsys.readouterr().err


@pytest.mark.parametrize("token", ["ci_\u00e9", "ci_a\nb", "ci_\x1b"])
def test_a_malformed_key_is_reported(submit: Submit, capsys: pytest.CaptureFixture[str], token: str):
    assert submit("--token", token) == 2
    assert "this is not an API key" in capsys.readouterr().err


def test_a_key_may_end_with_the_line_break_of_its_file(service: ScriptedService, submit: Submit):
    with service.scripted(passing):
        assert submit("--token", f"{service.token}\n") == 0


class OtherServer(BaseHTTPRequestHandler):
    """A web server that is not the service."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path.endswith("/user") else 500)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), OtherServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_another_server_is_recognized(submit: Submit, other_server: str, capsys: pytest.CaptureFixture[str]):
    assert submit("--url", other_server) == 1
    assert f"the answer of {other_server} is not that of a ci-daemon (status 200)" in capsys.readouterr().err
    assert submit("--url", other_server, "--org", "acme") == 1
    assert "is not that of a ci-daemon (status 500)" in capsys.readouterr().err
