"""Pages of the host's owner: another door to the operations that commands on the host perform."""
