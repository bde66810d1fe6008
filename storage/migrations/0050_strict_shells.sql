-- Whether a build's commands run in a shell that ends at the first failure. Where it is null, the next larger unit's
-- applies: the pipeline's, the organization's, the host's. A build keeps what applied when it was made.
ALTER TABLE organizations ADD COLUMN strict_shell INTEGER CHECK (strict_shell IN (0, 1));
ALTER TABLE pipelines ADD COLUMN strict_shell INTEGER CHECK (strict_shell IN (0, 1));
ALTER TABLE builds ADD COLUMN strict_shell INTEGER NOT NULL DEFAULT 0 CHECK (strict_shell IN (0, 1));
