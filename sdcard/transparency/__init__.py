"""A transparency log with witnesses: tree, checkpoints, policies and proofs."""
