"""The pipeline of this project: install, then lint and test side by side, then a report."""

from ci_daemon.language import job, pipeline


@pipeline("hello", name="Hello", env={"PYTHONPATH": "."}, timeout="10m")
def hello() -> None:
    install = job("install", name="Install", image="debian:12", run="python3 ci/install.py vendor")
    lint = install.then("lint", name="Lint", run="python3 ci/lint.py greeting tests ci")
    test = install.then("test", name="Test", run="python3 ci/test.py")
    test.then("report", name="Report", needs=[install, lint], run="python3 ci/report.py")
