-- The provider of an organization's VMs; the host's where it is null.
ALTER TABLE organizations ADD COLUMN provider TEXT CHECK (provider <> '');
