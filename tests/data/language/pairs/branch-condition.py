from ci_daemon.language import job, pipeline


@pipeline("branch-condition")
def branch_condition() -> None:
    test = job("test", image="debian:12", run="make test")
    job("deploy", image="debian:12", needs=[test], when={"branch": ["main"]}, run="./deploy.sh")
