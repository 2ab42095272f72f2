"""The database: engine, tables, migrations, backups and state."""
