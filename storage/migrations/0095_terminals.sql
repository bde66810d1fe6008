-- The terminals that people have opened on forks of jobs' disks: whose it is, by which token, and why it has ended.
CREATE TABLE terminals (
    hold_id INTEGER PRIMARY KEY REFERENCES holds (id) ON DELETE CASCADE,
    user_id INTEGER NOT NULL REFERENCES users (id),
    token_id INTEGER REFERENCES tokens (id) ON DELETE SET NULL,
    before INTEGER NOT NULL CHECK (before IN (0, 1)),
    why_ended TEXT
) STRICT;
CREATE INDEX terminals_user ON terminals (user_id);
CREATE INDEX terminals_token ON terminals (token_id) WHERE token_id IS NOT NULL;
