from ci_daemon.language import job, pipeline


@pipeline("artifacts")
def artifacts() -> None:
    job("build", image="node:22", run="npm run build", artifacts=["dist/**", "report.xml"])
