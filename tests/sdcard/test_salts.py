"""A pool hands out each salt once."""

import pytest

from sdcard import Misuse
from sdcard.edge.system import SystemSalts
from sdcard.salts import SALT_BYTES, SaltPool, draw_salts
from tests.sdcard.bad_salts import BadSalts
from tests.world import RecordingSalts


def test_a_pool_gives_every_salt_of_its_source_once_and_in_order() -> None:
    source = RecordingSalts()
    pool = SaltPool(source)
    taken = [pool.take() for _ in range(200)]
    assert taken == source.drawn[:200]
    assert len(set(taken)) == 200
    assert all(len(salt) == SALT_BYTES == 16 for salt in taken)


def test_two_pools_share_nothing() -> None:
    source = SystemSalts()
    one, other = SaltPool(source), SaltPool(source)
    assert not {one.take() for _ in range(100)} & {other.take() for _ in range(100)}


@pytest.mark.parametrize("count", [1, 64])
@pytest.mark.parametrize("spare", [-SALT_BYTES, -1, 1, SALT_BYTES])
def test_a_source_that_gives_another_number_of_bytes_is_misuse(count: int, spare: int) -> None:
    with pytest.raises(Misuse):
        draw_salts(BadSalts(spare=spare), count)
    with pytest.raises(Misuse):
        SaltPool(BadSalts(spare=spare)).take()


@pytest.mark.parametrize("period", [1, 2, 63, 64, 65])
def test_a_source_that_repeats_itself_is_misuse_at_the_first_repetition(period: int) -> None:
    """Also from one draw to the next, whatever the salts are for."""
    pool = SaltPool(BadSalts(period=period))
    assert len({pool.take() for _ in range(period)}) == period
    with pytest.raises(Misuse):
        pool.take()
