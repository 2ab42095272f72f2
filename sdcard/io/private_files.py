"""Files for their owner alone, written whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_private_file(file: Path, data: bytes) -> None:
    """Write a whole file or none, readable by its owner alone."""
    descriptor, unfinished = tempfile.mkstemp(dir=file.parent, prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        Path(unfinished).replace(file)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
