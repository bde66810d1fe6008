from ci_daemon.language import job, pipeline


@pipeline("matrix-when")
def matrix_when() -> None:
    job(
        "test",
        image="debian:12",
        matrix={"os": ["a", "b"], "mode": ["x", "y"]},
        when={"matrix": {"mode": ["x"]}},
        run="./test.sh ${{ matrix.os }}",
    )
