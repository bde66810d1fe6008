from ci_daemon.language import job, pipeline


@pipeline("pipeline-files")
def pipeline_files() -> None:
    taken = {"base-image": {"package": "dist/*"}, "tools@release/1.x": {"build": ["*.tar", "bin/*"]}}
    job("build", image="debian:12", run="./build.sh", files_of=taken)
