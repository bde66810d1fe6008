"""The process on its host: the journal, systemd, the lock of its state, open and private files."""
