from ci_daemon.language import job, pipeline


@pipeline("shell")
def shell() -> None:
    job("report", image="python:3.12", shell=["python3", "-c"], run="print(1)")
