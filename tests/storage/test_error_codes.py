from __future__ import annotations

import re
from pathlib import Path

from storage import BuildErrorCode, JobErrorCode

MONITORING = Path(__file__).parents[2] / "systemd" / "monitoring"
OF_SERVICE = {code for code in JobErrorCode if code.of_service}


def test_the_alert_counts_the_failures_of_the_service():
    [selected] = re.findall(r'job_attempts_total\{error=~"([^"]+)"', (MONITORING / "alerts.yml").read_text())
    assert set(selected.split("|")) == OF_SERVICE


def test_the_alert_about_renders_selects_an_error_code():
    [selected] = re.findall(r'renders_total\{error="([^"]+)"', (MONITORING / "alerts.yml").read_text())
    assert selected in set(BuildErrorCode)


def test_the_dashboard_names_the_failures_of_the_service():
    [named] = re.findall(r'"([^"]+) are the service\'s own faults', (MONITORING / "dashboard.json").read_text())
    assert set(re.findall(r"\w+_\w+", named)) == OF_SERVICE
