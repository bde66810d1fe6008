"""VMs as sandboxes of namespaces, which need no KVM and no privileges (engine.md, "Leases")."""
