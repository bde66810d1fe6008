-- A report to a source host shows all builds of a commit, so these are looked for at each change of a build's state.
CREATE INDEX builds_of_commit ON builds (commit_sha, pipeline_id) WHERE commit_sha IS NOT NULL;
