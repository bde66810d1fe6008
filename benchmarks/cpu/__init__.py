"""The benchmark of the CPU time of a job, by process of its VM and by thread of the service."""
