from ci_daemon.language import job, pipeline


@pipeline("matrix-gate")
def matrix_gate() -> None:
    test = job("test", image="debian:12", matrix={"part": ["a", "b"]}, run="./test.sh ${{ matrix.part }}")
    job("ship", image="debian:12", needs=[test], run="./ship.sh")
