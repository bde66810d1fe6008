from ci_daemon.language import job, pipeline


@pipeline("push-branches", on={"push": {"branches": ["main", "release/*"]}})
def push_branches() -> None:
    job("test", image="debian:12", run="make")
