"""Storage of the registry: the interface is in ``ports``, the only SQL in ``sql``."""
