"""The commands that need only the catalog: ls, facets, stats, sql, tag, note, review, collection, export-list."""
