from ci_daemon.language import job, pipeline


@pipeline("no-forks")
def no_forks() -> None:
    test = job("test", image="debian:12", run="make test")
    job("deploy", image="debian:12", needs=[test], when={"not_": {"fork": True}}, run="./deploy.sh")
