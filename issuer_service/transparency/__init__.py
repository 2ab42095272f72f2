"""The registry's transparency log: its leaves, batches, checkpoints and proofs."""
