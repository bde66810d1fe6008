-- A build of a fork's pull request is one whatever its origin becomes, and so are its rebuilds.
ALTER TABLE builds ADD COLUMN from_fork INTEGER NOT NULL DEFAULT 0 CHECK (from_fork IN (0, 1));
UPDATE builds SET from_fork = 1
WHERE untrusted_origin IS NOT NULL OR id IN (SELECT build_id FROM build_origins WHERE from_fork = 1);
ALTER TABLE build_origins DROP COLUMN from_fork;
