-- The job with a matrix that a job is a cell of, and the cell's values by axis, as a JSON object.
ALTER TABLE jobs ADD COLUMN matrix_job TEXT;
ALTER TABLE jobs ADD COLUMN matrix TEXT;
