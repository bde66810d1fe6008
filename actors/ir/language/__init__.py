"""The language of pipelines, version "1": its model, its YAML, and the jobs that it describes. Pure."""
