"""Speed, as ratios to the raw signature floor of the same run.

``python -m benchmarks``.
"""
