-- The command by which proofs run some of a pipeline's tests alone, with words that stand for these; null for none.
ALTER TABLE pipelines ADD COLUMN test_command TEXT;
