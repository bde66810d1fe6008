-- Heads that were there when a repository was connected are told from those that were looked at because of a push: a push that is
-- reported later than it was seen is none of the past.
ALTER TABLE repository_heads ADD COLUMN adopted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repositories ADD COLUMN heads_known INTEGER NOT NULL DEFAULT 0;
UPDATE repositories SET heads_known = 1
WHERE checked_at IS NOT NULL OR EXISTS (SELECT 1 FROM repository_heads WHERE repository_id = repositories.id);
