-- What a build was given by name, and the files that changed, as a JSON array; null if nobody knows.
ALTER TABLE builds ADD COLUMN inputs TEXT NOT NULL DEFAULT '{}';
ALTER TABLE builds ADD COLUMN changed_files TEXT;
-- The inputs that a repository declares, as a JSON object.
ALTER TABLE declarations ADD COLUMN inputs TEXT NOT NULL DEFAULT '{}';
-- The ref of the connected repository whose source is to be fetched; null once it is there.
ALTER TABLE renders ADD COLUMN ref TEXT;
