"""Coverage-guided fuzzing of everything that reads what strangers send. ``python -m fuzz -max_total_time=600``."""
