"""Tables, column types, engines (SQLite, PostgreSQL), migrations, roots."""
