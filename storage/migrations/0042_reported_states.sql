-- `reported` is a state of the build, so that both can be compared in the database.
ALTER TABLE build_origins RENAME COLUMN reported TO told;
ALTER TABLE build_origins ADD COLUMN reported TEXT
CHECK (reported IN ('scheduled', 'running', 'failing', 'passed', 'failed', 'canceling', 'canceled'));
UPDATE build_origins SET reported = CASE told WHEN 'waiting' THEN 'scheduled' ELSE told END;
ALTER TABLE build_origins DROP COLUMN told;
