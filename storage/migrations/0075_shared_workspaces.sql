-- Whether a job takes the workspace that the other one has left, under an image of its own.
ALTER TABLE edges ADD COLUMN workspace INTEGER NOT NULL DEFAULT 0 CHECK (workspace IN (0, 1));
