from ci_daemon.language import job, pipeline


@pipeline("build-names")
def build_names() -> None:
    job("image", image="debian:12", env={"TAG": "build-${{ build.commit }}"}, run="./publish.sh \"$TAG\"")
