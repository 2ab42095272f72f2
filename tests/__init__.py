"""The tests.

Compiled modules are written, also where the environment says not to: else each worker, and each process that tests
start, compiles all it imports.
"""

import os
import sys
from pathlib import Path

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(Path(__file__).parents[1] / "build" / "pycache")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
