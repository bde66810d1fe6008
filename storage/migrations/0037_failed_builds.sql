-- The builds that failed last, for the console's first page.
CREATE INDEX builds_failed ON builds (id) WHERE state = 'failed';
