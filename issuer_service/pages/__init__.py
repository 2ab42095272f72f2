"""Pages for people, each one file that asks for nothing else."""
