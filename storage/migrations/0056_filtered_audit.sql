-- The audit by actor, by organization and by both, in the order of its list: of one without entries nothing is read.
-- The index for both comes first, because SQLite takes the older one of two that seem as good.
CREATE INDEX audit_entries_organization_actor ON audit_entries (organization, actor) WHERE organization IS NOT NULL;
CREATE INDEX audit_entries_organization ON audit_entries (organization) WHERE organization IS NOT NULL;
CREATE INDEX audit_entries_actor ON audit_entries (actor);
