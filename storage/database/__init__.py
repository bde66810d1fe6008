"""The SQLite database: connections, statements, migrations and copies."""
