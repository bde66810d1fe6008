-- The latest build of a pipeline on a branch, and the public pipelines, oldest first.
CREATE INDEX builds_of_branch ON builds (pipeline_id, branch, number);
CREATE INDEX pipelines_visibility ON pipelines (visibility) WHERE deleted_at IS NULL;
