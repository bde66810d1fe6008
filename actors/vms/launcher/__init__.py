"""The launcher: programs that turn a spec into a running VM, on the standard library alone.

It is imported by path, not as a part of the service, so that a VM starts without importing anything unused.
"""
