-- What a build's pipeline says without effect, such as unknown keys: sentences, as a JSON array.
ALTER TABLE builds ADD COLUMN warnings TEXT NOT NULL DEFAULT '[]';
