from ci_daemon.language import job, pipeline


@pipeline("cache")
def cache() -> None:
    install = job("install", image="debian:12", cache={"key": "v2"}, run="./install.sh")
    install.then("test", run="./test.sh")
