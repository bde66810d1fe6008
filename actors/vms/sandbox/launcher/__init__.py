"""The part that turns into a VM: run by the host's python, on the standard library alone, from spec to PID 1.

It is imported by path, not as a part of the service, so that a VM starts without paying for anything it does not use.
"""
