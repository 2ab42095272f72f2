"""Cards at well-known addresses: which form is asked for, by whom, and what they are given. Knows no sockets."""
