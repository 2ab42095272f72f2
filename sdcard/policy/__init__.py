"""Disclosure policies: contexts, rules, plans, validation and documents."""
