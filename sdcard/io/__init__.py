"""The world outside the core: clock, files, sockets, databases and tokens."""
