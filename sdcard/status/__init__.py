"""Token Status List: the ``status`` claim, and the Verifier's decision about it."""
