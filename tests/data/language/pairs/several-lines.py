from ci_daemon.language import job, pipeline


@pipeline("several-lines")
def several_lines() -> None:
    job("test", image="debian:12", run="./configure\nmake\nmake check\n")
