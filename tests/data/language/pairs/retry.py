from ci_daemon.language import job, pipeline


@pipeline("retry")
def retry() -> None:
    job("flaky", image="debian:12", run="./flaky.sh", retry={"limit": 2, "exit_codes": [75]})
