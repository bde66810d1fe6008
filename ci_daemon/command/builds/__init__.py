"""Commands about pipelines and builds, under the heading "Build"."""
