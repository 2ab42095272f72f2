"""Agents over time: renewed, with other keys, listed, shown, deleted by their owners."""
