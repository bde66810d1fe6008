"""A VM that is a machine: QEMU and its monitor on the host, and PID 1 in the guest."""
