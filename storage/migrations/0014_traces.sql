-- When an attempt's VM was there, and when its command had ended.
ALTER TABLE attempts ADD COLUMN leased_at INTEGER;
ALTER TABLE attempts ADD COLUMN exited_at INTEGER;

-- Builds in the order in which they ended, for whoever follows that.
CREATE INDEX builds_ended ON builds (finished_at) WHERE finished_at IS NOT NULL;

-- When the build ended whose trace was sent last; one row at most.
CREATE TABLE traces_sent (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    until INTEGER NOT NULL
) STRICT;
