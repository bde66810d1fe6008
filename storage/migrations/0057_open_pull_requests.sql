-- Pull requests that are open when a repository is connected at its host are built once. Those of repositories that are connected
-- already were reported at their changes.
ALTER TABLE repositories ADD COLUMN pull_requests_known INTEGER NOT NULL DEFAULT 0;
UPDATE repositories SET pull_requests_known = 1 WHERE connection_id IS NOT NULL;
