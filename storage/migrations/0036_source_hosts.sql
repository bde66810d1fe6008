-- Accounts at source hosts, the host of each repository, and the push or pull request that a build was made for.
CREATE TABLE host_connections (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    provider TEXT NOT NULL CHECK (provider <> ''),
    remote_id TEXT NOT NULL CHECK (remote_id <> ''),
    account TEXT NOT NULL CHECK (account <> ''),
    account_type TEXT NOT NULL,
    name TEXT NOT NULL,
    credential BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    synced_at INTEGER,
    suspended_at INTEGER,
    UNIQUE (provider, remote_id)
) STRICT;
CREATE INDEX host_connections_organization ON host_connections (organization_id);

ALTER TABLE repositories ADD COLUMN provider TEXT NOT NULL DEFAULT 'git';
ALTER TABLE repositories ADD COLUMN connection_id INTEGER REFERENCES host_connections (id) ON DELETE CASCADE;
ALTER TABLE repositories ADD COLUMN remote_id TEXT;
ALTER TABLE repositories ADD COLUMN private INTEGER NOT NULL DEFAULT 1;
CREATE INDEX repositories_connection ON repositories (connection_id) WHERE connection_id IS NOT NULL;
CREATE INDEX repositories_remote ON repositories (provider, remote_id) WHERE remote_id IS NOT NULL;

CREATE TABLE new_deliveries (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    provider TEXT NOT NULL CHECK (provider <> ''),
    event TEXT NOT NULL CHECK (event <> ''),
    delivery_id TEXT NOT NULL CHECK (delivery_id <> ''),
    repository_id INTEGER REFERENCES repositories (id) ON DELETE CASCADE,
    body BLOB NOT NULL,
    received_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    retry_at INTEGER,
    processed_at INTEGER,
    last_error TEXT,
    UNIQUE (provider, delivery_id)
) STRICT;
INSERT INTO new_deliveries
SELECT id, uuid, provider, 'push', delivery_id, repository_id, body, received_at, attempts, NULL, processed_at, last_error
FROM deliveries;
DROP TABLE deliveries;
ALTER TABLE new_deliveries RENAME TO deliveries;
CREATE INDEX deliveries_pending ON deliveries (repository_id, id) WHERE processed_at IS NULL;
CREATE INDEX deliveries_unassigned ON deliveries (provider, id) WHERE processed_at IS NULL AND repository_id IS NULL;
CREATE INDEX deliveries_repository ON deliveries (repository_id);
CREATE INDEX deliveries_received ON deliveries (received_at);

CREATE TABLE build_origins (
    build_id INTEGER PRIMARY KEY REFERENCES builds (id) ON DELETE CASCADE,
    repository_id INTEGER REFERENCES repositories (id) ON DELETE SET NULL,
    event TEXT NOT NULL CHECK (event IN ('push', 'tag', 'pull_request')),
    ref TEXT NOT NULL CHECK (ref <> ''),
    pull_request INTEGER,
    target_branch TEXT,
    from_fork INTEGER NOT NULL DEFAULT 0,
    actor TEXT,
    author_name TEXT,
    author_email TEXT,
    reported TEXT,
    report_id TEXT,
    report_at INTEGER,
    report_failures INTEGER NOT NULL DEFAULT 0,
    report_error TEXT
) STRICT;
CREATE INDEX build_origins_repository ON build_origins (repository_id);
CREATE INDEX build_origins_report ON build_origins (report_at) WHERE report_at IS NOT NULL;
