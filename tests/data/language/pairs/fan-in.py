from ci_daemon.language import job, pipeline


@pipeline("fan-in")
def fan_in() -> None:
    a = job("a", image="debian:12", run="./a")
    b = job("b", image="debian:12", run="./b")
    job("all", image="debian:12", needs=[a, b], run="./all")
