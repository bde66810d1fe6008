-- The file by which a job generates others, and of these the UUID of that job. An attempt keeps the file from the end of its command
-- until its job has ended, with the jobs of the file in the same transaction.
ALTER TABLE jobs ADD COLUMN generates TEXT;
ALTER TABLE jobs ADD COLUMN generated_by TEXT;
ALTER TABLE attempts ADD COLUMN generated TEXT;
