-- E-mail that waits for the mail server, sealed, and for some days what became of it, without its content.
CREATE TABLE mails (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    recipient TEXT NOT NULL,
    kind TEXT NOT NULL,
    content BLOB,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    last_error TEXT,
    sent_at INTEGER,
    given_up_at INTEGER,
    CHECK (sent_at IS NULL OR given_up_at IS NULL),
    CHECK ((content IS NULL) = (sent_at IS NOT NULL OR given_up_at IS NOT NULL)),
    CHECK ((next_attempt_at IS NULL) = (content IS NULL))
) STRICT;
CREATE INDEX mails_waiting ON mails (recipient, id) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX mails_due ON mails (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX mails_expiring ON mails (expires_at) WHERE next_attempt_at IS NOT NULL AND expires_at IS NOT NULL;
CREATE INDEX mails_recent ON mails (recipient, kind, created_at);
CREATE INDEX mails_sent ON mails (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX mails_given_up ON mails (given_up_at) WHERE given_up_at IS NOT NULL;
CREATE INDEX mails_unsent ON mails (created_at) WHERE sent_at IS NULL;
