-- The names of the matchers that find problems in the log of a job, in JSON.
ALTER TABLE jobs ADD COLUMN problems TEXT NOT NULL DEFAULT '[]';
