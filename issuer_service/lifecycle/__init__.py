"""Agents over time: renewal, other keys, lists, deletion by their owners."""
