"""Metrics of builds, and the dashboard and alerts that query them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.daemon import Client, Daemon
from tests.e2e.pipelines import Graph, one
from tests.waiting import until

MONITORING = Path(__file__).parents[3] / "systemd" / "monitoring"
WORDS = {"and", "by", "max", "min", "on", "or", "sum", "unless", "without"}
TARGET = {"instance", "job"}


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "1", "CI_DAEMON_POOL_MAX_VMS": "2"}


@dataclass(frozen=True)
class Scrape:
    families: list[Metric]

    @classmethod
    def of(cls, daemon: Daemon) -> Scrape:
        return cls(list(text_string_to_metric_families(httpx.get(f"{daemon.url}/metrics").text)))

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with these labels."""
        samples = [sample for family in self.families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def labels(self) -> dict[str, set[str]]:
        """Return the labels of each metric that can be queried; empty for a metric without samples."""
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "info": ("",), "gauge": ("",)}
        found: dict[str, set[str]] = {}
        for family in self.families:
            found.update({family.name + suffix: set() for suffix in suffixes[family.type]})
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        return found


@pytest.fixture(scope="module")
def scrape(daemon: Daemon) -> Scrape:
    """The metrics after a build that failed at its third step, and one that hit the cache."""
    pipeline = Client.create(daemon, "watched@example.org").pipeline()
    graph = (
        Graph()
        .step("parent", "true", cache={"policy": "forever", "key": "k"})
        .step("child", "true", builds_in="parent")
    )
    assert pipeline.build(graph.ir()).finish()["state"] == "passed"
    assert pipeline.build(graph.step("bad", "exit 3", after=("child",)).ir()).finish()["state"] == "failed"
    assert pipeline.build(one("true", image="nonesuch:1")).finish()["state"] == "failed"

    def look() -> Scrape | None:
        scrape = Scrape.of(daemon)
        return scrape if scrape.value("ci_daemon_lease_seconds_count") == 4 else None

    return until(look, "the end of every lease in the figures")


def test_what_ran_is_in_the_figures(scrape: Scrape):
    assert scrape.value("ci_daemon_build_seconds_count", state="passed") == 1
    assert scrape.value("ci_daemon_build_seconds_count", state="failed") == 2
    assert scrape.value("ci_daemon_job_attempts_total", result="passed", error="-") == 3
    assert scrape.value("ci_daemon_job_attempts_total", result="failed", error="-") == 1
    assert scrape.value("ci_daemon_image_pulls_total", result="failed") == 1
    assert scrape.value("ci_daemon_job_run_seconds_count") == 4
    assert scrape.value("ci_daemon_job_queue_wait_seconds_count") == 4
    assert scrape.value("ci_daemon_cache_stored_total") == 1
    assert scrape.value("ci_daemon_cache_hits_total") == 1
    assert scrape.value("ci_daemon_vm_create_seconds_count") >= 4
    assert scrape.value("ci_daemon_actors", actor="LeasePool") == 1
    assert scrape.value("ci_daemon_parked_vms_wanted") == 1


def test_what_did_not_happen_is_zero_and_not_absent(scrape: Scrape):
    labels = scrape.labels()
    for name in ("actor_restarts_total", "vm_create_failures_total", "ledger_discrepancies", "unfinished_renders"):
        assert f"ci_daemon_{name}" in labels
        assert scrape.value(f"ci_daemon_{name}") == 0
    assert "error" in labels["ci_daemon_job_attempts_total"]
    assert scrape.value("ci_daemon_queue_longest_wait_seconds") == 0


def test_names_follow_the_conventions(scrape: Scrape):
    for family in scrape.families:
        assert re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", family.name)
        assert family.documentation.endswith(".") or not family.name.startswith("ci_daemon")
        if family.type == "histogram":
            assert family.name.endswith("_seconds")


def expressions() -> Iterator[Any]:
    """Yield every expression of the alerts and of the dashboard, with its alert, panel or variable as id."""
    alerts = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    for group in alerts["groups"]:
        for rule in group["rules"]:
            yield pytest.param(rule["expr"], id=rule["alert"])
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield pytest.param(variable["definition"], id=variable["name"])


def asked(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each metric that an expression queries, with the labels of its selector."""
    bare = re.sub(r"\b(?:by|on|without)\s*\([^)]*\)|\[[^]]*\]", " ", expression)
    bare = re.sub(r"(label_values\([^,]*), \w+\)", r"\1)", bare)
    for name, selector in re.findall(r"\b([a-z_][a-z0-9_]*)\b(?!\s*\()(\{[^}]*\})?", re.sub(r'"[^"]*"', '""', bare)):
        if name not in WORDS and not re.search(rf"[{{,]{name}[=!]", bare):
            yield name, set(re.findall(r"(\w+)\s*[=!]", selector))


@pytest.mark.parametrize("expression", list(expressions()))
def test_the_dashboard_and_alerts_use_existing_metrics(expression: str, scrape: Scrape):
    known = scrape.labels() | {"up": set()}
    metrics = list(asked(expression))
    assert metrics
    for name, labels in metrics:
        assert name in known
        assert labels <= known[name] | TARGET
    grouped = re.findall(r"\bby\s*\(([^)]*)\)", expression)
    assert {label.strip() for labels in grouped for label in labels.split(",")} <= set().union(*known.values()) | TARGET


def test_a_scraper_does_not_inherit_its_proxys_address(daemon: Daemon):
    assert httpx.get(f"{daemon.url}/metrics", headers={"X-Forwarded-For": "203.0.113.7"}).status_code == 401
