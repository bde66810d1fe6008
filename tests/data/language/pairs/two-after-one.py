from ci_daemon.language import job, pipeline


@pipeline("two-after-one")
def two_after_one() -> None:
    build = job("build", image="golang:1.22", run="go build ./...")
    build.then("test", run="go test ./...")
    build.then("vet", run="go vet ./...")
