from ci_daemon.language import job, pipeline


@pipeline("event-condition")
def event_condition() -> None:
    test = job("test", image="debian:12", run="make test")
    test.then("publish", when={"event": ["tag"]}, run="make publish")
