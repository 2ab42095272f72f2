"""The revisions, in a linear chain."""
