-- Programs beside a job's command, by their host names.
ALTER TABLE jobs ADD COLUMN services TEXT NOT NULL DEFAULT '{}';
