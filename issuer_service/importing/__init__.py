"""Agents in a file → registered, in large transactions and by several processes."""
