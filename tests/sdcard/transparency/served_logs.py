"""A log as static files on loopback. It can grow, fork and shrink."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sdcard.io import transparency
from sdcard.io.egress_policy import EgressPolicy
from sdcard.io.http import run_blocking
from sdcard.transparency.notes import Checkpoint, NoteKey, NoteSignature
from sdcard.transparency.tree import MerkleTree, leaf_hash, prove_consistency, tile_bytes, tiles_between
from vectors.actors import NOW
from vectors.logs import checkpoint

LEAVES = [leaf_hash(b"%d" % number) for number in range(700)]


class ServedLog:
    """Tiles and checkpoints in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._size = folder, 0

    def publish(self, size: int, *witnesses: str, leaves: list[bytes] = LEAVES, at: int = NOW) -> str:
        """Write the tiles and the checkpoint of these leaves, and return the checkpoint."""
        tree = MerkleTree(leaves[:size])
        for first, last in ((0, min(size, self._size)), (0, size)):
            for tile in tiles_between(first, last):
                if tile.level is not None:
                    file = self.folder / tile.path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(tile_bytes(tree, tile))
        self._size = max(size, self._size)
        text = str(checkpoint(tree, *witnesses, at=at))
        (self.folder / "checkpoint").write_text(text, encoding="utf-8")
        return text


def submit(url: str, made: Checkpoint, tree: MerkleTree, key: NoteKey, old: int, egress: EgressPolicy) -> NoteSignature:
    """Have a witness cosign the checkpoint of a tree."""

    async def prove(size: int) -> Sequence[bytes]:
        return prove_consistency(tree, size, made.size)

    return run_blocking(transparency.submit(url, made, prove, key, old, egress))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(server: Any) -> Iterator[str]:
    """Run a server in a thread, and return its address."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def files(folder: Path) -> ThreadingHTTPServer:
    """A server of the files below a folder."""
    return ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
