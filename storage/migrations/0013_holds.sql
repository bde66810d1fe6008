-- Whether the VMs of its failed jobs are to be held, for somebody to look into them.
ALTER TABLE builds ADD COLUMN debug INTEGER NOT NULL DEFAULT 0 CHECK (debug IN (0, 1));

-- The VM of a job that failed, kept from started_at until `until` at the latest for micro_cents a second; entry_id is its
-- one debit. reason is what ends it, known before its end where somebody asks for that.
CREATE TABLE holds (
    id INTEGER PRIMARY KEY,
    lease_id INTEGER NOT NULL UNIQUE REFERENCES leases (id),
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    job_id INTEGER NOT NULL UNIQUE REFERENCES jobs (id),
    started_at INTEGER NOT NULL,
    until INTEGER NOT NULL CHECK (until >= started_at),
    micro_cents INTEGER NOT NULL CHECK (micro_cents >= 0),
    reason TEXT CHECK (reason IN ('expired', 'released', 'killed', 'lost', 'deleted')),
    finished_at INTEGER CHECK (finished_at BETWEEN started_at AND until),
    amount_cents INTEGER NOT NULL DEFAULT 0 CHECK (amount_cents >= 0),
    entry_id INTEGER UNIQUE REFERENCES ledger_entries (id),
    CHECK ((finished_at IS NULL) = (entry_id IS NULL)),
    CHECK (finished_at IS NULL OR reason IS NOT NULL)
) STRICT;
CREATE INDEX holds_open ON holds (id) WHERE finished_at IS NULL;
CREATE INDEX holds_usage ON holds (organization_id, started_at, finished_at, id);
