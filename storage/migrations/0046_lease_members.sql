-- The member of a cluster on which a VM is; null where VMs are on one host, and until the VM is made.
ALTER TABLE leases ADD COLUMN member TEXT CHECK (member <> '');
