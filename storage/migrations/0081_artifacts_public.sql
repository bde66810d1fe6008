-- Whether anybody may read the artifacts of the latest passed builds of the repository's own branches.
ALTER TABLE pipelines ADD COLUMN artifacts_public INTEGER NOT NULL DEFAULT 0 CHECK (artifacts_public IN (0, 1));
