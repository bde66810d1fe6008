-- A job that runs only if something that it depends on failed.
ALTER TABLE jobs ADD COLUMN only_after_failure INTEGER NOT NULL DEFAULT 0 CHECK (only_after_failure IN (0, 1));
