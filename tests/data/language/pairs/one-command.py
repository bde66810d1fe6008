from ci_daemon.language import job, pipeline


@pipeline("one-command")
def one_command() -> None:
    job("test", image="debian:12", run="make test")
