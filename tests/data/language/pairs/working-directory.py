from ci_daemon.language import job, pipeline


@pipeline("working-directory")
def working_directory() -> None:
    setup = job("setup", image="debian:12", run="./setup.sh")
    setup.then("web", working_directory="web", run="./test.sh")
