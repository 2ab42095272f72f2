"""Coverage-guided fuzzing of all readers of untrusted input.

``python -m fuzz -max_total_time=600``.
"""
