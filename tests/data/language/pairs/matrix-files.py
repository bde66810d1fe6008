from ci_daemon.language import job, pipeline


@pipeline("matrix-files")
def matrix_files() -> None:
    job(
        "part",
        image="debian:12",
        matrix={"half": ["one", "two"]},
        run="./part.sh ${{ matrix.half }}",
        artifacts=["out"],
    )
    job("whole", image="debian:12", files={"part": ["out"]}, run="./whole.sh")
