"""Parts that all commands share: sessions, styles, errors, records by name."""
