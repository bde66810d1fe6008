-- Of a job that counts as ended in an earlier build, and does not run: the number of that build.
ALTER TABLE jobs ADD COLUMN taken_from INTEGER;
