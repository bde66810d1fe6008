-- The attempts of a job's earlier runs: those before its build was last retried.
ALTER TABLE jobs ADD COLUMN attempts_before INTEGER NOT NULL DEFAULT 0;

-- The debits of a job's runs after the first one, one for each run; the first run's entry names the job itself.
CREATE TABLE rerun_debits (
    entry_id INTEGER PRIMARY KEY REFERENCES ledger_entries (id),
    job_id INTEGER NOT NULL REFERENCES jobs (id),
    attempts_before INTEGER NOT NULL CHECK (attempts_before > 0),
    UNIQUE (job_id, attempts_before)
) STRICT;
CREATE TRIGGER rerun_debits_refuse_replace BEFORE INSERT ON rerun_debits
WHEN EXISTS (
    SELECT 1 FROM rerun_debits
    WHERE entry_id = NEW.entry_id OR (job_id = NEW.job_id AND attempts_before = NEW.attempts_before)
)
BEGIN
    SELECT raise(ABORT, 'the ledger is append-only: a debit is never replaced');
END;
CREATE TRIGGER rerun_debits_refuse_update BEFORE UPDATE ON rerun_debits
BEGIN
    SELECT raise(ABORT, 'the ledger is append-only: a debit is never changed');
END;
CREATE TRIGGER rerun_debits_refuse_delete BEFORE DELETE ON rerun_debits
BEGIN
    SELECT raise(ABORT, 'the ledger is append-only: a debit is never deleted');
END;

-- A job that fails again in another run may have its VM held again.
CREATE TABLE new_holds (
    id INTEGER PRIMARY KEY,
    lease_id INTEGER NOT NULL UNIQUE REFERENCES leases (id),
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    job_id INTEGER NOT NULL REFERENCES jobs (id),
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
INSERT INTO new_holds
SELECT
    id, lease_id, organization_id, job_id, started_at, until, micro_cents, reason, finished_at, amount_cents, entry_id
FROM holds;
DROP TABLE holds;
ALTER TABLE new_holds RENAME TO holds;
CREATE INDEX holds_open ON holds (id) WHERE finished_at IS NULL;
CREATE INDEX holds_usage ON holds (organization_id, started_at, finished_at, id);
CREATE INDEX holds_job ON holds (job_id);
