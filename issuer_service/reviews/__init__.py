"""Approval of registrations by people."""
