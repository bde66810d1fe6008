-- A payment session at the provider, of one organization. amount_cents is what the provider says that it is about. intent is
-- the provider's name of the payment itself, known once it is tried; refunds name it.
CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL UNIQUE,
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    state TEXT NOT NULL CHECK (state IN ('open', 'processing', 'paid', 'failed', 'expired')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    intent TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX payments_intent ON payments (intent) WHERE intent IS NOT NULL;

-- A refund at the provider, which may be known before its payment. One that failed stays failed.
CREATE TABLE payment_refunds (
    id INTEGER PRIMARY KEY,
    refund TEXT NOT NULL UNIQUE,
    intent TEXT NOT NULL,
    amount_cents INTEGER NOT NULL CHECK (amount_cents >= 0),
    failed INTEGER NOT NULL CHECK (failed IN (0, 1))
) STRICT;
CREATE INDEX payment_refunds_intent ON payment_refunds (intent);

-- The most that the provider said to be refunded of a payment in all, whether its single refunds are known or not.
CREATE TABLE payment_totals (
    id INTEGER PRIMARY KEY,
    intent TEXT NOT NULL UNIQUE,
    refunded_cents INTEGER NOT NULL CHECK (refunded_cents >= 0)
) STRICT;

-- What the provider sent, without data of people, and what it was good for. An event that comes again changes nothing.
CREATE TABLE payment_events (
    id INTEGER PRIMARY KEY,
    event TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    payload TEXT NOT NULL CHECK (json_valid(payload)),
    effect TEXT NOT NULL CHECK (effect IN ('credited', 'refunded', 'noted', 'ignored')),
    received_at INTEGER NOT NULL
) STRICT;

-- The payment that a top-up credits, or whose refund at the provider this is. No payment is credited twice.
ALTER TABLE ledger_entries ADD COLUMN payment_id INTEGER REFERENCES payments (id)
    CHECK (payment_id IS NULL OR source IN ('payment_topup', 'refund'));
CREATE INDEX ledger_entries_payment ON ledger_entries (payment_id) WHERE payment_id IS NOT NULL;
CREATE UNIQUE INDEX ledger_entries_topup ON ledger_entries (payment_id)
WHERE payment_id IS NOT NULL AND source = 'payment_topup';

DROP TRIGGER ledger_entries_refuse_replace;
CREATE TRIGGER ledger_entries_refuse_replace BEFORE INSERT ON ledger_entries
WHEN EXISTS (SELECT 1 FROM ledger_entries WHERE id = NEW.id OR uuid = NEW.uuid OR job_id = NEW.job_id)
    OR (
        NEW.source = 'payment_topup'
        AND EXISTS (SELECT 1 FROM ledger_entries WHERE payment_id = NEW.payment_id AND source = 'payment_topup')
    )
BEGIN
    SELECT raise(ABORT, 'the ledger is append-only: an entry is never replaced');
END;
