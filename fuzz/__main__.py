"""Run the fuzzer; the options are libFuzzer's.

``uv run --with atheris python -m fuzz -max_total_time=600``.

It starts from the vectors and what earlier runs found, keeps its corpus in ``build/fuzz/corpus``, and leaves the input
of a finding in ``build/fuzz``. The name of such a file as the only argument runs that input once more.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["sdcard"]):
    from fuzz.seeds import write_seeds, write_words
    from fuzz.targets import one_input

BUILD = Path(__file__).parent.parent / "build" / "fuzz"


def main() -> None:
    """Run libFuzzer; it ends the process, with status 0 when there was no finding."""
    arguments = sys.argv
    if not any(Path(one).is_file() for one in arguments[1:]):
        corpus, seeds = BUILD / "corpus", BUILD / "seeds"
        corpus.mkdir(parents=True, exist_ok=True)
        write_seeds(seeds)
        write_words(BUILD / "words")
        arguments = [*arguments, f"-artifact_prefix={BUILD}/", f"-dict={BUILD}/words", str(corpus), str(seeds)]
    atheris.Setup(arguments, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
