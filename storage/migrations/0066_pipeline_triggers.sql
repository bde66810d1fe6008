-- Pipelines that are built after builds of others, as their files declare. upstream_id is the build that is to be
-- followed, and not_before when that is tried again after it failed.
CREATE TABLE pipeline_triggers (
    id INTEGER PRIMARY KEY,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id),
    slug TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('passed', 'failed', 'always')),
    branch TEXT NOT NULL,
    declared_in TEXT NOT NULL,
    upstream_id INTEGER REFERENCES builds (id),
    not_before INTEGER,
    failures INTEGER NOT NULL DEFAULT 0,
    last_build_number INTEGER CHECK (last_build_number > 0),
    last_error TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX pipeline_triggers_pipeline ON pipeline_triggers (pipeline_id);
CREATE INDEX pipeline_triggers_slug ON pipeline_triggers (slug);
CREATE INDEX pipeline_triggers_due ON pipeline_triggers (id) WHERE upstream_id IS NOT NULL;

CREATE TABLE build_upstreams (
    build_id INTEGER PRIMARY KEY REFERENCES builds (id),
    upstream_id INTEGER NOT NULL REFERENCES builds (id)
) STRICT;
