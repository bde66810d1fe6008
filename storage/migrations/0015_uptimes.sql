-- In which boot of the host a job's command started, and how many microseconds into it: the wall clock may jump.
ALTER TABLE leases ADD COLUMN boot TEXT;
ALTER TABLE leases ADD COLUMN started_uptime INTEGER;
