"""Frozen values that go into the registry's memory and come out of it. No SQL, no HTTP."""
