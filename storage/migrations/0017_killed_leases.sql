-- The operator who ended a VM by hand: what became of its job is not the service's fault.
ALTER TABLE leases ADD COLUMN killed_by TEXT;
