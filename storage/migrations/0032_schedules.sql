-- next_at is null while a schedule is disabled.
CREATE TABLE schedules (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id),
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    branch TEXT NOT NULL,
    next_at INTEGER,
    last_build_number INTEGER CHECK (last_build_number > 0),
    last_error TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX schedules_pipeline ON schedules (pipeline_id);
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
