import harmont as hm

PATH = "/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@hm.pipeline("python", env={"PATH": PATH}, timeout="20m")
def python() -> tuple[hm.Step, ...]:
    base = hm.apt_base(packages=("python3", "python3-venv"), image="debian:12")
    venv = base.sh(
        "python3 -m venv /opt/venv && pip install -r requirements.txt",
        label="Install",
        cache=hm.compose(hm.forever(), hm.on_change("requirements.txt")),
    )
    lint = venv.fork().sh("ruff check . && ruff format --check .", label="Lint")
    types = venv.fork().sh("mypy --strict roman.py", label="Types")
    test = venv.fork().sh("pytest --junitxml=report.xml", label="Test", runner_args={"artifacts": ["report.xml"]})
    return (lint, types, test)
