"""The pipeline of this project: install, then lint and test side by side, then a report."""

import harmont as hm


@hm.pipeline("hello", name="Hello", env={"PYTHONPATH": "."}, timeout="10m")
def hello() -> tuple[hm.Step, ...]:
    install = hm.sh("python3 ci/install.py vendor", key="install", label="Install", image="debian:12")
    lint = install.fork().sh("python3 ci/lint.py greeting tests ci", key="lint", label="Lint")
    test = install.fork().sh("python3 ci/test.py", key="test", label="Test")
    report = test.sh("python3 ci/report.py", key="report", label="Report")
    return (lint, test, hm.wait(), report)
