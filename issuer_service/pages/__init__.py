"""HTML pages. Each is one file that loads nothing else."""
