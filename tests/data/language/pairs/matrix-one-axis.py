from ci_daemon.language import job, pipeline


@pipeline("matrix-one-axis")
def matrix_one_axis() -> None:
    job("test", image="python:${{ matrix.python }}", matrix={"python": ["3.11", "3.12", "3.13"]}, run="pytest")
