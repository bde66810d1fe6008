"""The pages above a build: home, an organization's pipelines, and a pipeline."""
