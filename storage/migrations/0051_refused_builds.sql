-- A build that a request asked for, and that was refused because it has no valid plan: the row that the answer names. It says
-- nothing about its branch, so no summary counts it.
ALTER TABLE builds ADD COLUMN refused INTEGER NOT NULL DEFAULT 0 CHECK (refused IN (0, 1));
UPDATE builds SET refused = 1
WHERE state = 'failed' AND created_by IS NOT NULL
AND error_code IN
    ('bad_version', 'cycle', 'duplicate_key', 'invalid_ir', 'invalid_json', 'render_failed', 'unknown_dependency')
AND NOT EXISTS (SELECT 1 FROM jobs WHERE build_id = builds.id);

CREATE INDEX builds_that_count ON builds (pipeline_id, branch, number) WHERE refused = 0;
DROP INDEX builds_failed;
CREATE INDEX builds_failed ON builds (id) WHERE state = 'failed' AND refused = 0;
