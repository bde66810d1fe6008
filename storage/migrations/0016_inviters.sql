-- Who sent an invite: one account sends a limited number a day.
ALTER TABLE invites ADD COLUMN inviter_id INTEGER REFERENCES users (id);
CREATE INDEX invites_of_inviter ON invites (inviter_id, created_at);
