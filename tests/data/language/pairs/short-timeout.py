from ci_daemon.language import job, pipeline


@pipeline("short-timeout")
def short_timeout() -> None:
    slow = job("slow", image="debian:12", timeout="1s", run="./slow.sh")
    job("after", image="debian:12", needs=[slow], run="./after.sh")
