"""Leases of VMs: the queue for them, renders in them, and the disks that they leave."""
