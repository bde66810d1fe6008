from ci_daemon.language import job, pipeline


@pipeline("environment", env={"LANG": "C.UTF-8"})
def environment() -> None:
    job("test", image="debian:12", env={"LEVEL": "3"}, run="make test")
