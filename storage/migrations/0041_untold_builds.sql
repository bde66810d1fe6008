-- SQLite took the index of all ended builds to find those that are not told. A build that runs again has no end, told or not.
DROP INDEX builds_untold;
UPDATE builds SET told_at = NULL WHERE recorded_at IS NULL AND told_at IS NOT NULL;
CREATE INDEX builds_untold ON builds (recorded_at, id) WHERE recorded_at IS NOT told_at;
