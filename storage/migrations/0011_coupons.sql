-- A code is kept in upper case. Without max_redemptions any number of organizations may redeem it, each of them once.
CREATE TABLE coupons (
    id INTEGER PRIMARY KEY,
    code TEXT NOT NULL UNIQUE CHECK (code = upper(code)),
    credit_cents INTEGER NOT NULL CHECK (credit_cents > 0),
    max_redemptions INTEGER CHECK (max_redemptions > 0),
    expires_at INTEGER,
    note TEXT,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE coupon_redemptions (
    coupon_id INTEGER NOT NULL REFERENCES coupons (id),
    organization_id INTEGER NOT NULL REFERENCES organizations (id),
    ledger_entry_id INTEGER NOT NULL UNIQUE REFERENCES ledger_entries (id),
    PRIMARY KEY (coupon_id, organization_id)
) STRICT, WITHOUT ROWID;
