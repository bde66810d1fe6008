"""Commands for pipelines and repositories, with their schedules, secrets and notifications."""
