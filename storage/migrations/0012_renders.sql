-- A build that is made from source alone has a row here, unfinished for as long as its plan does not stand; source_url is
-- where its archive is to be had, null where the host has it. rejected says that it ended in a refusal.
CREATE TABLE renders (
    build_id INTEGER PRIMARY KEY REFERENCES builds (id),
    source_url TEXT,
    lease_id INTEGER REFERENCES leases (id),
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    rejected INTEGER NOT NULL CHECK (rejected IN (0, 1))
) STRICT;
CREATE INDEX renders_unfinished ON renders (build_id) WHERE finished_at IS NULL;

CREATE INDEX idempotency_keys_build ON idempotency_keys (build_id);

-- The build that is rendered in this VM.
ALTER TABLE leases ADD COLUMN build_id INTEGER REFERENCES builds (id);

CREATE TABLE runner_tokens (
    build_id INTEGER PRIMARY KEY REFERENCES builds (id),
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32)
) STRICT;

-- What the pipeline files of an archive came to: name is a hash of everything that it follows from.
CREATE TABLE rendered (
    id INTEGER PRIMARY KEY,
    name BLOB NOT NULL UNIQUE CHECK (length(name) = 32),
    envelope TEXT NOT NULL,
    log BLOB NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX rendered_over ON rendered (expires_at);

-- A pipeline as its repository's files declare it; archived_at is since when they do so no more.
CREATE TABLE declarations (
    pipeline_id INTEGER PRIMARY KEY REFERENCES pipelines (id),
    name TEXT NOT NULL,
    allow_manual INTEGER NOT NULL CHECK (allow_manual IN (0, 1)),
    triggers TEXT NOT NULL,
    archived_at INTEGER
) STRICT;
