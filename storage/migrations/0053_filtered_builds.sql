-- Lists of builds by source and state, or by branch, source and state, newest first: a filter that is not given is one
-- look-up for each of its few values. A million builds take five seconds to index, and 100 MB.
CREATE INDEX builds_of_source_and_state ON builds (pipeline_id, source, state, number);
CREATE INDEX builds_of_branch_source_and_state ON builds (pipeline_id, branch, source, state, number);
-- The builds of an organization that failed last are among the last of each of its pipelines.
DROP INDEX builds_failed;
CREATE INDEX builds_failed ON builds (pipeline_id, id) WHERE state = 'failed' AND refused = 0;
