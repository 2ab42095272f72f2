"""Ports for servers that cannot be given a bound socket."""

import itertools
import os
import socket

_FIRST, _COUNT = 10_000, 20_000
"""Below the ports that the system gives to clients, which would take a port between its choice and its use."""

_next = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nothing uses, and that no other process of these tests is given.

    The UDP port of the same number, bound as long as this process runs, tells the other processes.
    """
    for number in itertools.islice(_next, _COUNT):
        port = _FIRST + number % _COUNT
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            claim.close()
            continue
        claim.detach()  # open until this process ends
        return port
    raise OSError(f"no port from {_FIRST} to {_FIRST + _COUNT} is free")
