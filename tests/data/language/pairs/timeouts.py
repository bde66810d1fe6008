from ci_daemon.language import job, pipeline


@pipeline("timeouts", timeout="1h")
def timeouts() -> None:
    job("test", image="debian:12", timeout="10m", run="./test.sh")
