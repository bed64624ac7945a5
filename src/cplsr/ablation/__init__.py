"""Many trainings, one table: rows of settings, run one by one or on a cluster, each resumable on its own."""
