from ci_daemon.language import job, pipeline


@pipeline("after-failure")
def after_failure() -> None:
    test = job("test", image="debian:12", run="make test")
    job("tell", image="debian:12", needs=[test], when={"status": "failed"}, run="./tell.sh")
