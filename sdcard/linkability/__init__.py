"""Linkability: values that SD-Cards share, and which of them are avoidable.

An attacker who sees two texts compares them; this does the same, so that Issuers and Holders know what it finds. Every
text becomes the set of its traces, and two texts are linked by the traces that both have. Nothing is verified, and no
clock is read. A report names claims and places, never a value.

What it does not compare: when and from where texts were seen, texts that resemble one another
without being equal, and anything that one party knows beside the two texts.
"""
