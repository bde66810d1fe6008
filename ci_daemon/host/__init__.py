"""The process on its host: the journal, systemd, the lock of the state directory, open files."""
