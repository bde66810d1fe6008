"""The same pipeline in Python: five builds and one release."""

from ci_daemon.language import job, pipeline

TARGETS = ["linux-amd64", "linux-arm64", "darwin-arm64", "freebsd-amd64", "windows-amd64"]


@pipeline(
    "release",
    name="Release",
    on={"push": {"branches": "main"}, "tag": "v*"},
    timeout="10m",
    defaults={"image": "debian:12"},
)
def release() -> None:
    version = job("version", run='echo "VERSION=$(cat version.txt)" >>"$CI_OUTPUT"')
    job(
        "build",
        needs=version,
        matrix={"target": TARGETS},
        run='./build "$VERSION" ${{ matrix.target }}',
        artifacts="dist/*",
    )
    job(
        "release",
        needs=version,
        files={"build": "dist/*"},
        run='./release "$VERSION"',
        artifacts=["dist/*", "SHA256SUMS"],
    )
