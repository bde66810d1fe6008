-- Who is told about the ends of a pipeline's builds. sealed holds the URL and the secrets of an endpoint; origin is the
-- part of its URL that may be shown.
CREATE TABLE notifications (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id),
    kind TEXT NOT NULL CHECK (kind IN ('email', 'webhook', 'slack')),
    events TEXT NOT NULL CHECK (json_valid(events)),
    origin TEXT,
    to_creator INTEGER NOT NULL CHECK (to_creator IN (0, 1)),
    sealed BLOB,
    created_at INTEGER NOT NULL,
    failing_since INTEGER,
    last_error TEXT,
    disabled_at INTEGER,
    CHECK ((kind = 'email') = (sealed IS NULL)),
    CHECK ((sealed IS NULL) = (origin IS NULL))
) STRICT;
CREATE INDEX notifications_pipeline ON notifications (pipeline_id);
CREATE INDEX notifications_failing ON notifications (failing_since) WHERE failing_since IS NOT NULL;

-- What was sent or waits to be sent, and what came of it. The UUID is the webhook-id of every attempt.
CREATE TABLE notification_deliveries (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    notification_id INTEGER NOT NULL REFERENCES notifications (id) ON DELETE CASCADE,
    event TEXT NOT NULL,
    build_number INTEGER,
    recipient TEXT,
    body TEXT,
    created_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    status INTEGER,
    answer TEXT,
    duration_ms INTEGER,
    last_error TEXT,
    delivered_at INTEGER,
    CHECK (body IS NULL OR recipient IS NULL),
    CHECK (next_attempt_at IS NULL OR (body IS NOT NULL AND delivered_at IS NULL))
) STRICT;
CREATE INDEX notification_deliveries_notification ON notification_deliveries (notification_id, id);
CREATE INDEX notification_deliveries_due ON notification_deliveries (next_attempt_at, id) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX notification_deliveries_waiting ON notification_deliveries (notification_id, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX notification_deliveries_created ON notification_deliveries (created_at);

-- The end of a build that was told last, by the instant of its recording, and whether it passed. A retried build ends again.
ALTER TABLE builds ADD COLUMN told_at INTEGER;
ALTER TABLE builds ADD COLUMN told_state TEXT CHECK (told_state IN ('passed', 'failed'));
UPDATE builds SET told_at = recorded_at, told_state = iif(state IN ('passed', 'failed'), state, NULL)
WHERE finished_at IS NOT NULL;
CREATE INDEX builds_untold ON builds (recorded_at, id)
WHERE recorded_at IS NOT NULL AND recorded_at IS NOT told_at;

-- The user who created a build, if a user did.
ALTER TABLE builds ADD COLUMN created_by INTEGER REFERENCES users (id);

-- Addresses whose owners want no mail about builds.
CREATE TABLE mail_opt_outs (
    email TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
