-- The bounds of an API key below what its user may do: scopes in JSON, and the one pipeline or organization that it is for.
ALTER TABLE tokens ADD COLUMN scopes TEXT;
ALTER TABLE tokens ADD COLUMN organization_id INTEGER REFERENCES organizations (id) ON DELETE CASCADE;
ALTER TABLE tokens ADD COLUMN pipeline_id INTEGER REFERENCES pipelines (id) ON DELETE CASCADE;
