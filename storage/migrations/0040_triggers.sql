-- Where these are null the next larger unit's apply: the pipeline's, the organization's, the host's.
ALTER TABLE organizations ADD COLUMN cancel_superseded TEXT
CHECK (cancel_superseded IN ('waiting', 'branches', 'all'));
ALTER TABLE organizations ADD COLUMN fork_approval TEXT CHECK (fork_approval IN ('strangers', 'always', 'never'));
ALTER TABLE organizations ADD COLUMN fork_secrets INTEGER CHECK (fork_secrets IN (0, 1));
ALTER TABLE pipelines ADD COLUMN cancel_superseded TEXT CHECK (cancel_superseded IN ('waiting', 'branches', 'all'));
