"""A command's environment and VM shape: defaults, and the owner's, the image's and the step's values."""

from __future__ import annotations

import pytest

from actors.builds.attempt.environment import job_environment
from actors.settings import JobSettings
from actors.vms import CONTAINER_VARIABLES
from tests.actors.conftest import Host
from tests.e2e.pipelines import one

OF_JOBS = {"HTTPS_PROXY": "http://proxy:3128", "LANG": "de_DE.UTF-8", "A": "owner's", "CI": "no"}


def environment(host: Host, of_jobs: dict[str, str], *, of_image: dict[str, str], **step: str) -> dict[str, str]:
    build = host.build(one("true", env=step))
    env = job_environment(
        build,
        host.job(build),
        "http://127.0.0.1",
        of_jobs=of_jobs,
        of_image=of_image,
        of_needed={},
        of_build={},
        secrets={},
    )
    host.finish(build)
    return env


@pytest.mark.sandbox
def test_a_job_has_a_utf_8_locale_a_dumb_terminal_and_its_shape(host: Host):
    command = "python3 -c 'print(\"\\N{SNOWMAN}\")'; echo $LANG $TERM $CI_CPUS $CI_MEMORY_MB"
    build = host.build(one(command, runner_args={"cpu": 2, "memory_gb": 3}))
    assert host.finish(build).state == "passed"
    assert host.log(build).decode() == "\N{SNOWMAN}\nC.UTF-8 dumb 2 3072\n"


def test_the_owners_variables_are_between_image_and_step(host: Host):
    """They override the image, and the step overrides them."""
    env = environment(host, OF_JOBS, of_image={"LANG": "fr_FR.UTF-8", "A": "image's", "B": "image's"}, A="step's")
    assert (env["HTTPS_PROXY"], env["LANG"], env["A"], env["B"]) == (
        "http://proxy:3128",
        "de_DE.UTF-8",
        "step's",
        "image's",
    )
    assert (env["CI"], env["TERM"]) == ("true", "dumb")


def test_programs_that_build_images_find_their_settings(host: Host):
    given = {"CI_CONTAINERS": "true", "BUILDAH_ISOLATION": "oci"}
    env = environment(host, {}, of_image={"CONTAINERS_CONF": "/etc/other.conf"}, **given)
    assert env.items() >= {**CONTAINER_VARIABLES, **given}.items()
    assert not CONTAINER_VARIABLES.keys() & environment(host, {}, of_image={}, CI_CONTAINERS="false").keys()


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("NO-PROXY", "x", 'env: "NO-PROXY" is no name of a variable'),
        ("NULL", "a\0b", 'env: the value of "NULL" holds a null byte'),
        ("CI_ORG", "x", 'env: "CI_ORG" is set by the service'),
    ],
)
def test_a_variable_that_no_job_could_have_is_refused(name: str, value: str, fault: str):
    with pytest.raises(ValueError, match=fault):
        JobSettings(env={name: value})
