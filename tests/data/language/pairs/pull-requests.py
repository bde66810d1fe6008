from ci_daemon.language import job, pipeline


@pipeline("pull-requests", on={"push": {"branches": ["main"]}, "pull_request": {"branches": ["main"]}})
def pull_requests() -> None:
    job("test", image="debian:12", run="make")
