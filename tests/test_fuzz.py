"""The fuzzer's targets and seeds: it starts behind every check, and finds nothing before it has begun."""

from pathlib import Path

import pytest

from fuzz.seeds import seeds, write_seeds
from fuzz.targets import Target, one_input
from sdcard import Refused

SEEDS = seeds()


def of(target: Target) -> list[bytes]:
    return [seed[1:] for seed in SEEDS if seed[:1] == target.seed(b"")]


def accepts(target: Target, data: bytes) -> bool:
    try:
        target(data)
    except Refused:
        return False
    return True


@pytest.mark.parametrize("target", Target)
def test_some_seeds_pass_every_check_and_some_do_not(target: Target) -> None:
    assert {accepts(target, seed) for seed in of(target)} == {True, False}


def test_no_seed_is_a_finding() -> None:
    for seed in [b"", *SEEDS]:
        one_input(seed)


def test_whatever_is_no_refusal_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr("fuzz.targets.parse_card", broken)
    with pytest.raises(KeyError, match="planted"):
        one_input(Target.CARD.seed(b"{}"))


@pytest.mark.slow
def test_every_seed_is_written_once(tmp_path: Path) -> None:
    write_seeds(tmp_path / "seeds")
    write_seeds(tmp_path / "seeds")

    assert sorted(file.read_bytes() for file in (tmp_path / "seeds").iterdir()) == SEEDS
