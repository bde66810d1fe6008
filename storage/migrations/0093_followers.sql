-- The organizations whose pipelines may follow a pipeline of another one: their slugs, as a JSON array. And the inputs that the
-- followed build gives, as a JSON object of their names and what gives them.
ALTER TABLE pipelines ADD COLUMN followers TEXT NOT NULL DEFAULT '[]';
ALTER TABLE pipeline_triggers ADD COLUMN inputs TEXT NOT NULL DEFAULT '{}';
