"""Options of hpu_backend: the table, their values, and how they are read."""
