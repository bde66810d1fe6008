from ci_daemon.language import job, pipeline


@pipeline("path-condition")
def path_condition() -> None:
    job("docs", image="python:3.12", when={"paths": ["docs", "*.md"]}, run="mkdocs build")
    job("test", image="python:3.12", when={"paths": ["src/**"]}, run="pytest")
