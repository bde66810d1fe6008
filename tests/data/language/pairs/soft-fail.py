from ci_daemon.language import job, pipeline


@pipeline("soft-fail")
def soft_fail() -> None:
    lint = job("lint", image="debian:12", run="./lint.sh", soft_fail={"exit_codes": [1]})
    job("test", image="debian:12", needs=[lint], run="./test.sh")
