"""The registry's state and the audit chain: adoption, replay, comparison.

Each audit record names the rows that its transaction wrote, with a keyed digest of each column. Replaying the chain
gives the digests that each row must have. Comparing them with the tables shows a row that was changed, inserted or
deleted by anything but the registry.
"""
