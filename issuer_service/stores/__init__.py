"""What the registry remembers: the questions are in ``ports``, the only SQL in ``sql``."""
