from ci_daemon.language import job, pipeline


@pipeline("defaults", defaults={"image": "golang:1.22", "timeout": "10m"})
def defaults() -> None:
    job("test", run="go test ./...")
    job("vet", run="go vet ./...", timeout="2m")
