from ci_daemon.language import job, pipeline


@pipeline("always")
def always() -> None:
    test = job("test", image="debian:12", run="make test")
    job("clean", image="debian:12", needs=[test], when={"status": "always"}, run="./clean.sh")
