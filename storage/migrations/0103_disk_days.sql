-- When a kept disk was last charged; null if never yet.
ALTER TABLE kept_disks ADD COLUMN charged_at INTEGER;
DROP INDEX kept_disks_of_organization;
CREATE INDEX kept_disks_of_organization ON kept_disks (organization_id, created_at, snapshot);

-- The kept disks of an organization on one UTC day, which begins at day: what they took, and cost beyond whole cents.
-- The day is debited once, when it is over; entry_id is null before, and if it has cost less than a cent.
CREATE TABLE disk_days (
    organization_id INTEGER NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    day INTEGER NOT NULL,
    mb_seconds INTEGER NOT NULL,
    micro_cents INTEGER NOT NULL,
    amount_cents INTEGER,
    entry_id INTEGER UNIQUE REFERENCES ledger_entries (id),
    PRIMARY KEY (organization_id, day),
    CHECK (entry_id IS NULL OR amount_cents IS NOT NULL)
) STRICT;
CREATE INDEX disk_days_open ON disk_days (day, organization_id) WHERE amount_cents IS NULL;
