"""Creation of builds from requests (wire-decisions.md, "Pipelines, builds, jobs")."""
