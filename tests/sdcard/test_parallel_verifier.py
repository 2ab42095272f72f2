"""Several presentations at once: each is judged as if it were alone, in the order given, by however many threads."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from sdcard import Checked, CheckedAsync, Misuse, Refused, Unbound, VerifiedCard, verify_many, verify_presentation
from sdcard.key_binding import Answering, Challenge
from sdcard.parallel_verifier import Task
from sdcard.status_list import StatusReference
from sdcard.verifier import Expectations
from tests.world import NOW, World, outcome, unsigned

STATUS = StatusReference("https://registry.example/lists/1", 7)
THREADS = [1, 2, 5]


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


class NoPool:
    """A pool without workers: no task ever begins."""

    def submit(self, work: Callable[[], None], /) -> Task:
        return Future()


def batch(world: World, count: int) -> list[tuple[str, Expectations]]:
    """Good answers, each to a challenge of its own."""
    challenges = [world.verifier.challenge() for _ in range(count)]
    return [
        (world.holder.present(one), world.verifier.expectations(world.verifier.answering(one))) for one in challenges
    ]


def said(result: VerifiedCard | Refused) -> object:
    return (result.rule, result.where) if isinstance(result, Refused) else (result.subject, result.members)


@pytest.mark.parametrize("threads", THREADS)
def test_each_is_judged_as_if_it_were_alone(world: World, pool: ThreadPoolExecutor, threads: int) -> None:
    many = batch(world, 7)
    many[1] = (unsigned(many[1][0].split("~")[0]) + "~", many[1][1])
    many[3] = (many[4][0], many[3][1])
    many[5] = ("no SD-JWT", many[5][1])
    other = World()
    alone = [outcome(partial(verify_presentation, *one, NOW)) for one in batch(other, 1)]

    results = verify_many(many, NOW, pool, threads)

    rules = [result.rule.value if isinstance(result, Refused) else "" for result in results]
    assert rules == ["", "kb.missing", "", "kb.nonce-mismatch", "", "sd-jwt.format", ""]
    assert said(results[0]) == said(alone[0])


@pytest.mark.parametrize("threads", THREADS)
def test_refusals_are_those_of_verifying_alone(world: World, pool: ThreadPoolExecutor, threads: int) -> None:
    many = batch(world, 4)
    sd_jwt = world.holder.unbound()
    changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"iat": NOW - 400}, {}),
        ({}, {"typ": "JWT"}),
        ({"aud": "x"}, {}),
        ({"sd_hash": "x"}, {}),
    ]
    for number, (claims, header) in enumerate(changes):
        challenge = world.verifier.challenge()
        text = world.holder.bind(sd_jwt, challenge, claims, header)
        many.insert(2 * number, (text, world.verifier.expectations(world.verifier.answering(challenge))))
    bad = many[::2][:4]
    alone = [outcome(partial(verify_presentation, *one, NOW)) for one in bad]

    results = verify_many(many, NOW, pool, threads)

    assert all(isinstance(one, Refused) for one in alone)
    assert [said(one) for one in results[::2][:4]] == [said(one) for one in alone]
    assert all(isinstance(one, VerifiedCard) for one in results[1::2])


@pytest.mark.parametrize("threads", THREADS)
def test_one_challenge_is_answered_once_and_first_comes_first(
    world: World, pool: ThreadPoolExecutor, threads: int
) -> None:
    [one] = batch(world, 1)
    [other] = batch(world, 1)
    results = verify_many([one, other, one, one], NOW, pool, threads)
    assert [isinstance(result, VerifiedCard) for result in results] == [True, True, False, False]
    assert {result.rule.value for result in results if isinstance(result, Refused)} == {"kb.replayed"}


def test_a_challenge_is_used_up_by_nothing_that_fails(world: World, pool: ThreadPoolExecutor) -> None:
    [(text, expectations)] = batch(world, 1)
    assert isinstance(expectations.key_binding, Answering)
    forged = world.holder.bind(world.holder.unbound(), expectations.key_binding.challenge, signer=world.issuer.signer)
    refused, good = verify_many([(forged, expectations), (text, expectations)], NOW, pool, 2)
    assert isinstance(refused, Refused)
    assert refused.rule == "jws.signature"
    assert isinstance(good, VerifiedCard)


def test_a_pool_without_a_free_thread_holds_nothing_up(world: World) -> None:
    assert all(isinstance(one, VerifiedCard) for one in verify_many(batch(world, 3), NOW, NoPool(), 3))


class CountingPool(NoPool):
    """Counts how many helpers it was asked for."""

    asked = 0

    def submit(self, work: Callable[[], None], /) -> Task:
        self.asked += 1
        return super().submit(work)


@pytest.mark.parametrize(("count", "threads", "helpers"), [(5, 1, 0), (5, 3, 2), (5, 5, 4), (2, 8, 3), (1, 8, 1)])
def test_as_many_threads_work_as_was_said_the_calling_one_among_them(
    world: World, count: int, threads: int, helpers: int
) -> None:
    pool, many = CountingPool(), batch(world, count)
    assert all(isinstance(one, VerifiedCard) for one in verify_many(many, NOW, pool, threads))
    assert pool.asked == helpers


def test_nothing_is_nothing(pool: ThreadPoolExecutor) -> None:
    assert verify_many([], NOW, pool, 2) == []


# -- questions --------------------------------------------------------------------------------------------------------


class Statuses:
    """Answers in turn; an exception is raised."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = iter(answers)

    def status(self, reference: StatusReference, issuer: str, now: float) -> int:
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def with_status(world: World, source: Statuses, count: int) -> tuple[list[tuple[str, Expectations]], list[Challenge]]:
    card = world.issuer.issue(status=STATUS)
    challenges = [world.verifier.challenge() for _ in range(count)]
    return [
        (
            world.holder.present(one, card),
            world.verifier.expectations(world.verifier.answering(one), status=Checked(source)),
        )
        for one in challenges
    ], challenges


def test_statuses_are_asked_in_order(world: World, pool: ThreadPoolExecutor) -> None:
    many, _ = with_status(world, Statuses(0, 1, 2, 0), 4)
    results = verify_many(many, NOW, pool, 2)
    rules = [result.rule.value if isinstance(result, Refused) else "" for result in results]
    assert rules == ["", "status.revoked", "status.suspended", ""]


def test_what_else_a_source_raises_goes_on_and_nobody_is_asked_after_it(world: World, pool: ThreadPoolExecutor) -> None:
    many, challenges = with_status(world, Statuses(0, OSError("the disk is gone"), 0), 3)
    with pytest.raises(OSError, match="the disk is gone"):
        verify_many(many, NOW, pool, 2)
    consumed = [not world.verifier.issued.consume(one, NOW) for one in challenges]
    assert consumed == [True, False, False]


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, None])
def test_threads_are_counted(world: World, pool: ThreadPoolExecutor, threads: Any) -> None:
    with pytest.raises(Misuse):
        verify_many(batch(world, 1), NOW, pool, threads)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("now", [None, "now", float("nan")])
def test_misuse_is_found_before_anybody_is_asked(
    world: World, pool: ThreadPoolExecutor, now: Any, threads: int
) -> None:
    [one] = batch(world, 1)
    bad: Any = (b"bytes", one[1])
    for many, instant in (([one, bad], NOW), ([one], now)):
        with pytest.raises(Misuse):
            verify_many(many, instant, pool, threads)
    assert isinstance(verify_many([one], NOW, pool, threads)[0], VerifiedCard)


def test_what_must_be_awaited_is_misuse(world: World, pool: ThreadPoolExecutor) -> None:
    source: Any = Statuses()
    awaited = world.verifier.expectations(Unbound("a directory"), status=CheckedAsync(source))
    with pytest.raises(Misuse):
        verify_many([*batch(world, 1), (str(world.holder.unbound()), awaited)], NOW, pool, 2)
