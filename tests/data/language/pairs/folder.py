from ci_daemon.language import job, pipeline


@pipeline("folder")
def folder() -> None:
    job("web", image="node:22", working_directory="web", run="npm ci && npm test")
