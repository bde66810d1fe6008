"""Leases of VMs: the queue for them, held ones, and the disks that they leave."""
