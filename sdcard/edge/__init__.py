"""The impure part of the package: clock, randomness, files, records of nonces.

The rest of the core never imports it.
"""
