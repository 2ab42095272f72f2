"""Linkability: the values that SD-Cards share, and which of them are avoidable.

An attacker who sees two SD-JWTs compares them. This package does the same, so that Issuers and Holders know the result.
Each SD-JWT becomes a set of traces, and two SD-JWTs are linked by equal traces. Nothing is verified, and no clock is
read. A report has claims and places, never a value.

It does not compare when and where SD-JWTs were seen, texts that are similar but not equal, or other knowledge of an
attacker.
"""
