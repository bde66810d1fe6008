from ci_daemon.language import job, pipeline


@pipeline("files")
def files() -> None:
    job("build", image="debian:12", run="./build.sh", artifacts=["dist"])
    check = job("check", image="debian:12", run="./check.sh")
    job("pack", image="debian:12", needs=[check], files={"build": ["dist/*.txt"]}, run="./pack.sh")
