from ci_daemon.language import job, pipeline


@pipeline("matrix-two-axes")
def matrix_two_axes() -> None:
    job(
        "test",
        image="golang:1.22",
        matrix={"db": ["sqlite", "postgres"], "race": ["0", "1"]},
        env={"DB": "${{ matrix.db }}", "RACE": "${{ matrix.race }}"},
        run="make test",
    )
