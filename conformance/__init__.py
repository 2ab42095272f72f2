"""Other people's SD-JWT libraries on our vectors: ``python -m conformance`` writes ``docs/libraries.md``."""
