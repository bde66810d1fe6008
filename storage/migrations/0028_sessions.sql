-- Where a session was begun: the client's address, and the name of its program; API keys have neither.
ALTER TABLE tokens ADD COLUMN address TEXT;
ALTER TABLE tokens ADD COLUMN agent TEXT;
