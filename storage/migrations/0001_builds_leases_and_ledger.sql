CREATE TABLE organizations (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    balance_cents INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    personal_organization_id INTEGER NOT NULL UNIQUE REFERENCES organizations (id),
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    user_id INTEGER NOT NULL REFERENCES users (id),
    kind TEXT NOT NULL CHECK (kind IN ('api_key', 'session')),
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    description TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER
) STRICT;
CREATE INDEX tokens_user ON tokens (user_id);

CREATE TABLE memberships (
    user_id INTEGER NOT NULL REFERENCES users (id),
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, organization_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memberships_organization ON memberships (organization_id);

CREATE TABLE pipelines (
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
    repo_name TEXT,
    source_slug TEXT,
    fail_fast INTEGER NOT NULL CHECK (fail_fast IN (0, 1)),
    last_number INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    UNIQUE (organization_id, slug)
) STRICT;
CREATE INDEX pipelines_organization ON pipelines (organization_id);

CREATE TABLE builds (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    external_id TEXT NOT NULL UNIQUE,
    pipeline_id INTEGER NOT NULL REFERENCES pipelines (id),
    number INTEGER NOT NULL CHECK (number > 0),
    state TEXT NOT NULL CHECK (
        state IN ('scheduled', 'running', 'failing', 'passed', 'failed', 'canceling', 'canceled')
    ),
    branch TEXT,
    commit_sha TEXT,
    message TEXT,
    source TEXT NOT NULL,
    timeout_seconds INTEGER CHECK (timeout_seconds > 0),
    cancel_requested INTEGER NOT NULL CHECK (cancel_requested IN (0, 1)),
    has_source INTEGER NOT NULL CHECK (has_source IN (0, 1)),
    source_sha256 TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    scheduled_at INTEGER,
    started_at INTEGER,
    finished_at INTEGER,
    error_code TEXT,
    error_message TEXT,
    env BLOB,
    pipeline_ir TEXT,
    UNIQUE (pipeline_id, number),
    CHECK ((finished_at IS NOT NULL) = (state IN ('passed', 'failed', 'canceled')))
) STRICT;
CREATE INDEX builds_unfinished ON builds (id) WHERE finished_at IS NULL;

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    build_id INTEGER NOT NULL REFERENCES builds (id),
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    position INTEGER NOT NULL CHECK (position >= 0),
    state TEXT NOT NULL CHECK (
        state IN (
            'pending', 'scheduled', 'assigned', 'running', 'passed', 'failed', 'skipped', 'canceling', 'canceled',
            'timing_out', 'timed_out'
        )
    ),
    attempt INTEGER NOT NULL,
    step_key TEXT NOT NULL,
    name TEXT NOT NULL,
    image TEXT,
    cpu INTEGER NOT NULL CHECK (cpu > 0),
    memory_gb INTEGER NOT NULL CHECK (memory_gb > 0),
    disk_gb INTEGER NOT NULL CHECK (disk_gb > 0),
    network INTEGER NOT NULL CHECK (network IN (0, 1)),
    timeout_seconds INTEGER CHECK (timeout_seconds > 0),
    retry_policy TEXT,
    soft_fail_policy TEXT,
    soft_failed INTEGER NOT NULL CHECK (soft_failed IN (0, 1)),
    artifacts TEXT NOT NULL,
    secrets TEXT NOT NULL,
    cache_policy TEXT NOT NULL,
    cache_key TEXT,
    cache_hit INTEGER NOT NULL CHECK (cache_hit IN (0, 1)),
    exit_code INTEGER,
    error_code TEXT,
    error_message TEXT,
    created_at INTEGER NOT NULL,
    scheduled_at INTEGER,
    started_at INTEGER,
    finished_at INTEGER,
    env TEXT NOT NULL,
    command TEXT NOT NULL,
    UNIQUE (build_id, position),
    CHECK ((finished_at IS NOT NULL) = (state IN ('passed', 'failed', 'skipped', 'canceled', 'timed_out')))
) STRICT;
CREATE INDEX jobs_queued ON jobs (organization_id, scheduled_at, position, id) WHERE state = 'scheduled';

CREATE TABLE edges (
    from_id INTEGER NOT NULL REFERENCES jobs (id),
    to_id INTEGER NOT NULL REFERENCES jobs (id),
    kind TEXT NOT NULL CHECK (kind IN ('builds_in', 'depends_on')),
    continue_on_failure INTEGER NOT NULL CHECK (continue_on_failure IN (0, 1)),
    PRIMARY KEY (to_id, from_id),
    CHECK (from_id <> to_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX edges_builds_in ON edges (to_id) WHERE kind = 'builds_in';

CREATE TABLE attempts (
    job_id INTEGER NOT NULL REFERENCES jobs (id),
    number INTEGER NOT NULL CHECK (number > 0),
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    exit_code INTEGER,
    error_code TEXT,
    PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    organization_id INTEGER REFERENCES organizations (id),
    job_id INTEGER REFERENCES jobs (id),
    attempt INTEGER NOT NULL,
    provider TEXT NOT NULL,
    image TEXT,
    cpu INTEGER NOT NULL CHECK (cpu > 0),
    memory_gb INTEGER NOT NULL CHECK (memory_gb > 0),
    disk_gb INTEGER NOT NULL CHECK (disk_gb > 0),
    network INTEGER NOT NULL CHECK (network IN (0, 1)),
    state TEXT NOT NULL CHECK (state IN ('creating', 'warm', 'active', 'ended')),
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    amount_cents INTEGER NOT NULL CHECK (amount_cents >= 0)
) STRICT;
CREATE INDEX leases_job ON leases (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX leases_usage ON leases (organization_id, started_at, finished_at) WHERE started_at IS NOT NULL;
CREATE INDEX leases_live ON leases (id) WHERE state <> 'ended';

CREATE TABLE ledger_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    amount_cents INTEGER NOT NULL,
    source TEXT NOT NULL CHECK (
        source IN ('payment_topup', 'coupon_redemption', 'admin_grant', 'vm_lease_debit', 'refund')
    ),
    description TEXT,
    job_id INTEGER UNIQUE REFERENCES jobs (id),
    created_at INTEGER NOT NULL,
    CHECK (job_id IS NULL OR source = 'vm_lease_debit')
) STRICT;
CREATE INDEX ledger_entries_organization ON ledger_entries (organization_id);

CREATE TRIGGER ledger_entries_keep_balance AFTER INSERT ON ledger_entries
BEGIN
    UPDATE organizations SET balance_cents = balance_cents + NEW.amount_cents WHERE id = NEW.organization_id;
END;
CREATE TRIGGER ledger_entries_refuse_replace BEFORE INSERT ON ledger_entries
WHEN EXISTS (SELECT 1 FROM ledger_entries WHERE id = NEW.id OR uuid = NEW.uuid OR job_id = NEW.job_id)
BEGIN
    SELECT raise(ABORT, 'the ledger is append-only: an entry is never replaced');
END;
CREATE TRIGGER ledger_entries_refuse_update BEFORE UPDATE ON ledger_entries
BEGIN
    SELECT raise(ABORT, 'the ledger is append-only: an entry is never changed');
END;
CREATE TRIGGER ledger_entries_refuse_delete BEFORE DELETE ON ledger_entries
BEGIN
    SELECT raise(ABORT, 'the ledger is append-only: an entry is never deleted');
END;

CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    job_id INTEGER NOT NULL REFERENCES jobs (id),
    provider TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX snapshots_job ON snapshots (job_id);
