-- Each new build counts the unfinished ones of its organization, and looks for their sources: in the index alone.
DROP INDEX builds_unfinished_of_pipeline;
CREATE INDEX builds_unfinished_of_pipeline ON builds (pipeline_id, has_source, from_fork, uuid, finished_at)
    WHERE finished_at IS NULL;
