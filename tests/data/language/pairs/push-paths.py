from ci_daemon.language import job, pipeline


@pipeline("push-paths", on={"push": {"paths": ["src/**", "!**/*.md"]}})
def push_paths() -> None:
    job("test", image="debian:12", run="make")
