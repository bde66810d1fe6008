-- What a build is of, as the service knows by itself: from the delivery or fetch of the source host, never from what a
-- request says. Without a ref nobody has verified it.
ALTER TABLE builds ADD COLUMN verified_event TEXT NOT NULL DEFAULT 'api'
CHECK (verified_event IN ('push', 'tag', 'pull_request', 'schedule', 'pipeline', 'manual', 'api'));
ALTER TABLE builds ADD COLUMN verified_ref TEXT CHECK (verified_ref LIKE 'refs/%');

UPDATE builds SET (verified_event, verified_ref) = (
    SELECT event, CASE event WHEN 'pull_request' THEN 'refs/pull/' || pull_request || '/head' ELSE ref END
    FROM build_origins WHERE build_id = builds.id
) WHERE id IN (SELECT build_id FROM build_origins);

-- The builds that a secret is for: JSON arrays of patterns, of which one has to match; an empty one limits nothing.
ALTER TABLE secrets ADD COLUMN branches TEXT NOT NULL DEFAULT '[]';
ALTER TABLE secrets ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
ALTER TABLE secrets ADD COLUMN events TEXT NOT NULL DEFAULT '[]';
ALTER TABLE secrets ADD COLUMN environments TEXT NOT NULL DEFAULT '[]';
ALTER TABLE secrets ADD COLUMN pipelines TEXT NOT NULL DEFAULT '[]';
