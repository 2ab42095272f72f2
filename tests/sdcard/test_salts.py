"""A pool hands out each salt once."""

from sdcard.edge.system import SystemSalts
from sdcard.salts import SALT_BYTES, SaltPool
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
