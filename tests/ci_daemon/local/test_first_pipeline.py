"""The first pipeline of a project, from `ci-daemon new` to the end of its build."""

from __future__ import annotations

from ci_daemon.command import main
from tests.ci_daemon.local.projects import Project, rest


def test_the_first_pipeline_passes_when_it_is_run(project: Project):
    (project.tree / "README").write_text("no language at all\n")
    assert main(["new", str(project.tree)]) == 0
    with project.start_rendered() as process:
        printed = rest(process)
        assert process.wait(60) == 0, printed
    assert "Replace this by the commands that test the project." in printed
