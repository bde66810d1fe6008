-- What an API key may spend of its user's organizations, and which of their builds and forks it pays for.
ALTER TABLE tokens ADD COLUMN budget_cents INTEGER CHECK (budget_cents > 0);
ALTER TABLE tokens ADD COLUMN spent_cents INTEGER NOT NULL DEFAULT 0
    CHECK (spent_cents >= 0 AND (budget_cents IS NULL OR spent_cents <= budget_cents));
ALTER TABLE builds ADD COLUMN budget_id INTEGER REFERENCES tokens (id) ON DELETE SET NULL;
ALTER TABLE holds ADD COLUMN budget_id INTEGER REFERENCES tokens (id) ON DELETE SET NULL;
-- For the deletion of a token, and for the look at what is open, each second, however much has ended.
CREATE INDEX builds_budget ON builds (budget_id) WHERE budget_id IS NOT NULL;
CREATE INDEX holds_budget ON holds (budget_id) WHERE budget_id IS NOT NULL;
CREATE INDEX builds_budget_open ON builds (finished_at, budget_id) WHERE budget_id IS NOT NULL;
CREATE INDEX holds_budget_open ON holds (finished_at, budget_id) WHERE budget_id IS NOT NULL;
