"""Agents: registration, renewal, listing and deletion."""
