-- When a lease's command was last known to run: no VM is believed that it had ended before.
ALTER TABLE leases ADD COLUMN seen_at INTEGER;
