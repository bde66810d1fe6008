from ci_daemon.language import job, pipeline


@pipeline("no-network")
def no_network() -> None:
    job("test", image="debian:12", network=False, run="./test.sh")
