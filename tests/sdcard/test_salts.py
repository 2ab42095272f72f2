"""A pool hands out each salt once."""

import pytest

from sdcard import Misuse
from sdcard.encoding import decode_base64url, encode_base64url
from sdcard.errors import Part, Where
from sdcard.io.system import SystemSalts
from sdcard.salts import SALT_BYTES, SaltPool, draw_salts
from tests.sdcard.bad_salts import BadSalts
from tests.world import RecordingSalts


def test_a_pool_gives_every_salt_of_its_source_once_and_in_order() -> None:
    source = RecordingSalts()
    pool = SaltPool(source)
    taken = [salt for count in (7, 0, 1, 40, 1, 151) for salt in pool.take(count)]
    assert taken == [encode_base64url(salt) for salt in source.drawn[:200]]
    assert len(set(taken)) == 200
    assert all(len(decode_base64url(salt, Where(Part.CARD))) == SALT_BYTES == 16 for salt in taken)


def test_a_pool_asks_for_exactly_as_many_as_the_first_who_takes_any() -> None:
    source = RecordingSalts()
    pool = SaltPool(source)
    pool.take(7)
    assert len(source.drawn) == 7
    pool.take(1)
    pool.take(15)
    assert len(source.drawn) == 7 + 16


def test_two_pools_share_nothing() -> None:
    source = SystemSalts()
    one, other = SaltPool(source), SaltPool(source)
    assert not {*one.take(100)} & {*other.take(100)}


@pytest.mark.parametrize("count", [1, 64])
@pytest.mark.parametrize("spare", [-SALT_BYTES, -1, 1, SALT_BYTES])
def test_a_source_that_gives_another_number_of_bytes_is_misuse(count: int, spare: int) -> None:
    with pytest.raises(Misuse):
        draw_salts(BadSalts(spare=spare), count)
    with pytest.raises(Misuse):
        SaltPool(BadSalts(spare=spare)).take(count)


@pytest.mark.parametrize("period", [1, 2, 15, 16, 17, 63])
@pytest.mark.parametrize("count", [1, 2, 16, 17, 64])
def test_a_source_that_repeats_itself_is_misuse_at_the_latest_at_the_first_repetition(period: int, count: int) -> None:
    """Within one draw and from one to the next, whatever the salts are for."""
    pool = SaltPool(BadSalts(period=period))
    given = set[str]()
    with pytest.raises(Misuse):
        _take_on(pool, count, given)
    assert len(given) <= period


def _take_on(pool: SaltPool, count: int, given: set[str]) -> None:
    for _ in range(100):
        fresh = pool.take(count)
        assert given.isdisjoint(fresh)
        given.update(fresh)
