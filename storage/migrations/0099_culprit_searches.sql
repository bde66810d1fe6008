-- A search for the commit that broke a job of the default branch, whose builds are of the commits between the build that
-- failed and the last that passed. What it does next follows from these rows.
CREATE TABLE culprit_searches (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id),
    build_id INTEGER NOT NULL UNIQUE REFERENCES builds (id),
    good_build_id INTEGER NOT NULL REFERENCES builds (id),
    step_key TEXT NOT NULL,
    good_commit TEXT NOT NULL,
    bad_commit TEXT NOT NULL,
    commits TEXT,
    rounds INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL CHECK (state IN ('searching', 'found', 'flaky', 'unclear', 'stopped', 'canceled')),
    reason TEXT NOT NULL,
    culprit TEXT,
    subject TEXT,
    author_name TEXT,
    author_email TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    CHECK ((state = 'searching') = (ended_at IS NULL))
) STRICT;
CREATE INDEX culprit_searches_open ON culprit_searches (id) WHERE ended_at IS NULL;
CREATE INDEX culprit_searches_pipeline ON culprit_searches (pipeline_id);
CREATE INDEX culprit_searches_good_build ON culprit_searches (good_build_id);
ALTER TABLE builds ADD COLUMN culprit_search_id INTEGER REFERENCES culprit_searches (id);
CREATE INDEX builds_of_culprit_search ON builds (culprit_search_id, id) WHERE culprit_search_id IS NOT NULL;
ALTER TABLE organizations ADD COLUMN find_culprits INTEGER CHECK (find_culprits IN (0, 1));
ALTER TABLE pipelines ADD COLUMN find_culprits INTEGER CHECK (find_culprits IN (0, 1));
-- Builds of searches say nothing new about their branch.
DROP INDEX builds_that_count;
CREATE INDEX builds_that_count ON builds (pipeline_id, branch, number) WHERE refused = 0 AND culprit_search_id IS NULL;
DROP INDEX builds_by_outcome;
CREATE INDEX builds_by_outcome ON builds (pipeline_id, branch, state, number)
WHERE refused = 0 AND culprit_search_id IS NULL;
