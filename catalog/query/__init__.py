"""Read the catalog: pages, columns, tables, statistics, ranking by words."""
