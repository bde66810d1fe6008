-- `reported` is a state of the build, so that both can be compared in the database.
UPDATE build_origins SET reported = 'scheduled' WHERE reported = 'waiting';
