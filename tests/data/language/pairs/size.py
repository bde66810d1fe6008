from ci_daemon.language import job, pipeline


@pipeline("size")
def size() -> None:
    job("big", image="debian:12", cpu=2, memory="4GB", disk="20GB", run="make -j2")
