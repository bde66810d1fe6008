-- The artifacts of other jobs that a job takes: lists of globs by the keys of these jobs, as a JSON object. Whether a file may be
-- executed goes with it.
ALTER TABLE jobs ADD COLUMN files TEXT NOT NULL DEFAULT '{}';
ALTER TABLE artifacts ADD COLUMN executable INTEGER NOT NULL DEFAULT 0 CHECK (executable IN (0, 1));
