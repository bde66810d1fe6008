-- A deleted pipeline's row stays, for its builds and what they cost; its slug is free again. To say so, the table is made
-- anew. Repositories are told apart without regard to case.
CREATE TABLE pipelines_remade (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    repository TEXT NOT NULL,
    default_branch TEXT NOT NULL,
    visibility TEXT NOT NULL CHECK (visibility IN ('private', 'public')),
    allow_manual INTEGER NOT NULL CHECK (allow_manual IN (0, 1)),
    description TEXT,
    repo_name TEXT COLLATE NOCASE,
    source_slug TEXT,
    fail_fast INTEGER NOT NULL CHECK (fail_fast IN (0, 1)),
    last_number INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;
INSERT INTO pipelines_remade (
    id, uuid, organization_id, slug, name, repository, default_branch, visibility, allow_manual, description, repo_name,
    source_slug, fail_fast, last_number, created_at
)
SELECT
    id, uuid, organization_id, slug, name, repository, default_branch, visibility, allow_manual, description, repo_name,
    source_slug, fail_fast, last_number, created_at
FROM pipelines;
DROP TABLE pipelines;
ALTER TABLE pipelines_remade RENAME TO pipelines;
CREATE UNIQUE INDEX pipelines_slug ON pipelines (organization_id, slug) WHERE deleted_at IS NULL;
CREATE INDEX pipelines_organization ON pipelines (organization_id) WHERE deleted_at IS NULL;
CREATE INDEX pipelines_source ON pipelines (organization_id, repo_name, source_slug) WHERE deleted_at IS NULL;

CREATE INDEX builds_unfinished_of_pipeline ON builds (pipeline_id) WHERE finished_at IS NULL;

-- What a caller may ask for again without having it done again: rejected says that the answer was a refusal.
CREATE TABLE idempotency_keys (
    user_id INTEGER NOT NULL REFERENCES users (id),
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    key TEXT NOT NULL,
    request_hash BLOB NOT NULL CHECK (length(request_hash) = 32),
    build_id INTEGER NOT NULL REFERENCES builds (id),
    rejected INTEGER NOT NULL CHECK (rejected IN (0, 1)),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, organization_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_made ON idempotency_keys (created_at);

DROP INDEX leases_job;
CREATE INDEX leases_job ON leases (job_id, attempt) WHERE job_id IS NOT NULL;
