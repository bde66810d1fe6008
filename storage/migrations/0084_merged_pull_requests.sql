-- The commit of a pull request that is built, and whether its merge is built again when its target has moved.
ALTER TABLE repositories ADD COLUMN pull_requests TEXT NOT NULL DEFAULT 'head'
CHECK (pull_requests IN ('head', 'merged'));
ALTER TABLE repositories ADD COLUMN merge_again TEXT NOT NULL DEFAULT 'never'
CHECK (merge_again IN ('never', 'labelled', 'always'));

-- The two commits that a build is the merge of, besides its own commit: that of the target, and the merge.
ALTER TABLE builds ADD COLUMN base_commit TEXT;
ALTER TABLE builds ADD COLUMN merge_commit TEXT;
