from ci_daemon.language import job, pipeline


@pipeline("names", name="Checks")
def names() -> None:
    unit = job("unit", name="Unit tests", image="debian:12", run="make unit")
    job("docs", name="Documentation", image="debian:12", needs=[unit], run="make docs")
