"""Files of ``sdcard audit``: an exported chain, checkpoints, and their keys."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from sdcard.audit_chain import MOST_BYTES, ChainVerifier, Checkpoint, Verdict, verify_checkpoint
from sdcard.cli.output import progress, show_left_out
from sdcard.encoding import parse_json_object
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.jose.keys import PublicKey
from sdcard.lenient import lenient_document

MOST_LINE: Final = 64 * 1024 * 1024
"""Bytes of one line of an export; a record names every claim that each context shows."""
_DEPTH = 4


def verify_export(file: Path, checkpoints: Sequence[Checkpoint]) -> Verdict:
    """Verify a complete export, record by record."""
    verifier = ChainVerifier(checkpoints)
    with file.open("rb") as opened, progress("bytes", file.stat().st_size) as tell:
        for line in read_lines(opened, MOST_LINE):
            tell(opened.tell())
            try:
                record = parse_json_object(line, Where(Part.AUDIT), _DEPTH)
            except Refused:
                verifier.add_unreadable()
            else:
                verifier.add(record)
    return verifier.finish()


def read_lines(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Read the lines that are not empty; the rest of a long line is another one."""
    while line := file.readline(most + 1):
        if line.strip():
            yield lenient_document(line)


def load_checkpoint_keys(file: Path) -> dict[str, PublicKey]:
    """Read a JWKS, by thumbprint; report unusable keys on standard error."""
    from sdcard.io.key_files import load_key_set

    keys = load_key_set(file)
    show_left_out(keys.left_out)
    return {key.thumbprint: key for _, key in keys.pairs()}


def read_checkpoints(files: Sequence[Path], keys: Mapping[str, PublicKey]) -> list[Checkpoint]:
    """Read every checkpoint of every file.

    Refuse a checkpoint that does not verify: it could be the one that proves a change.
    """
    found, refused = list[Checkpoint](), list[Finding]()
    for file in files:
        with file.open("rb") as opened:
            for number, line in enumerate(read_lines(opened, MOST_BYTES), 1):
                try:
                    found.append(verify_checkpoint(line.decode("latin-1").strip(), keys))
                except Refused as refusal:
                    hint = f"{file}, checkpoint {number}. {refusal.findings[0].hint}".rstrip()
                    refused.append(Finding(refusal.rule, refusal.where, hint))
    if refused:
        raise Refused.because(refused[:100])
    if not found:
        raise Misuse("there is no checkpoint in the file")
    return found
