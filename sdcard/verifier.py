"""The front door: a presentation, Expectations and an instant in; a verified card out, or ``Refused``.

The order of RFC 9901 7.3: decide about key binding, the SD-JWT (7.1), the KB-JWT; then status; then single use.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol, TypeAlias

from sdcard.cards.partial import PartialCard
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant, check_instant
from sdcard.issued import Acceptance, IssuedSdCard, reading_issued
from sdcard.jose.jws import SignatureQuestion
from sdcard.jose.keys import PublicKey
from sdcard.keybinding.challenge import Answering, KeyBinding, Unbound, Unsolicited, has_awaited_record
from sdcard.keybinding.verification import Bound, ask_single_use, judge_single_use, verifying_key_binding
from sdcard.paths import ClaimPath
from sdcard.requesting import ClaimRequest, undisclosed
from sdcard.rules import Rule
from sdcard.sdjwt.serialization import SdJwt, SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.status.reference import (
    Checked,
    CheckedAsync,
    Status,
    StatusQuestion,
    StatusReference,
    Unchecked,
    judge_status,
    parse_status,
    without_source,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations(Acceptance):
    """What a Verifier demands. The decisions about key binding and status have no default.

    Attributes:
        key_binding: ``Answering``, ``Unsolicited`` or ``Unbound``; the first two name the audience.
        status: ``Checked``, ``CheckedAsync`` or ``Unchecked``.
        requested: what the Holder was asked to show. It decides nothing: what is required, ``check_admission`` checks.
    """

    key_binding: KeyBinding
    status: Status
    requested: ClaimRequest = field(default_factory=ClaimRequest)
    is_awaited: bool = field(init=False, repr=False, compare=False)
    """Whether the status or the record is to be awaited."""

    def __post_init__(self) -> None:
        Acceptance.__post_init__(self)
        if not isinstance(self.key_binding, Answering | Unsolicited | Unbound):
            raise Misuse("decide about key binding: Answering, Unsolicited or Unbound")
        if not isinstance(self.status, Checked | CheckedAsync | Unchecked):
            raise Misuse("decide about the status: Checked, CheckedAsync or Unchecked")
        awaited = isinstance(self.status, CheckedAsync) or has_awaited_record(self.key_binding)
        object.__setattr__(self, "is_awaited", awaited)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCard(PartialCard):
    """A partial card, and who stands behind it. It can be pickled, copied and compared.

    Attributes:
        issuer: who stands behind it.
        subject: ``agent:`` and the agent's id.
        issued_at, expires_at: Unix seconds.
        holder_key: the key that the SD-Card is bound to.
        key_binding: the verified KB-JWT, or ``Unbound`` with the Verifier's reason.
        status: the Verifier's decision: ``Checked`` or ``CheckedAsync``, without the source, or ``Unchecked``.
        status_reference: the entry of a status list that speaks for the SD-Card; None where it has none.
        vct: the type that the SD-Card says it is, one that the profile accepts; None where it says none.
        not_before: ``nbf``, in Unix seconds; None where it is not there.
        audience: whom ``aud`` names, the Verifier among them; empty where it is not there.
        token_id: ``jti``; None where it is not there.
        hidden: digests without a Disclosure: decoys, and members that were not shown; nobody can tell which.
        requested: what the Verifier asked for.
    """

    issuer: str
    subject: str
    issued_at: Instant
    expires_at: Instant
    holder_key: PublicKey
    key_binding: Bound | Unbound
    status: Status = field(repr=False)
    hidden: int
    requested: ClaimRequest
    status_reference: StatusReference | None = None
    vct: str | None = None
    not_before: Instant | None = None
    audience: tuple[str, ...] = ()
    token_id: str | None = field(default=None, repr=False)

    @property
    def undisclosed(self) -> tuple[ClaimPath, ...]:
        """What was requested and is not shown: withheld or not there; nobody can tell which."""
        return undisclosed(self, self.requested)


class Task(Protocol):
    """Work that was handed to a pool, such as a ``concurrent.futures.Future``."""

    def cancel(self) -> bool:
        """Take it back; false when it has begun."""
        ...

    def result(self) -> object:
        """Wait until it is done; what went wrong in it goes on here."""
        ...


class ThreadPool(Protocol):
    """Threads of this process, such as a ``concurrent.futures.ThreadPoolExecutor``."""

    def submit(self, work: Callable[[], None], /) -> Task:
        """Do the work at some time, in another thread."""
        ...


class _UseQuestion(NamedTuple):
    """Whether a verified KB-JWT is presented for the first time."""

    bound: Bound
    expected: Answering | Unsolicited


_Question: TypeAlias = SignatureQuestion | StatusQuestion | _UseQuestion
_Steps: TypeAlias = Generator[_Question, Any, VerifiedCard]


def verify_presentation(presentation: str, expectations: Expectations, now: Instant) -> VerifiedCard:
    """Verify a presentation in every respect, or refuse it; nothing in between is released (R-73, R-94).

    Args:
        presentation: an SD-JWT or SD-JWT+KB, compact or in a JSON form.
        expectations: what the Verifier demands, decided before it looks (R-81).
        now: the present instant, in Unix seconds.

    Raises:
        Refused: with the rule that says no, and where.
        Misuse: when ``presentation`` is no text, ``now`` no instant, or a status or record is to be awaited.
    """
    if expectations.is_awaited:
        raise Misuse("await verify_presentation_async for a status source or record that is awaited")
    steps = _verification(presentation, expectations, now)
    step = _next_step(steps, None)
    while not isinstance(step, VerifiedCard):
        step = _next_step(steps, _ask(step, expectations, now))
    return step


async def verify_presentation_async(presentation: str, expectations: Expectations, now: Instant) -> VerifiedCard:
    """As ``verify_presentation``, by the same rules; status source and record are awaited where they have to be."""
    steps = _verification(presentation, expectations, now)
    step = _next_step(steps, None)
    while not isinstance(step, VerifiedCard):
        answer = _ask(step, expectations, now)
        step = _next_step(steps, await answer if isawaitable(answer) else answer)
    return step


def verify_many(
    presentations: Sequence[tuple[str, Expectations]], now: Instant, pool: ThreadPool, threads: int
) -> list[VerifiedCard | Refused]:
    """Verify presentations as ``verify_presentation`` does, several at once; none has a say in what becomes of another.

    Signatures are computed by several threads; all else is done by the calling one. Statuses and records are asked
    last, in the order given: of two answers to one challenge the first is the one that counts.

    Args:
        presentations: each with what the Verifier demands of it.
        now: the present instant, in Unix seconds.
        pool: where other threads are to be had; its owner shuts it down.
        threads: how many work at a time, the calling one among them.

    Returns:
        For each presentation, in order, the verified card, or the refusal.

    Raises:
        Misuse: as ``verify_presentation``, or when ``threads`` is not at least 1; nothing was asked then.
        Exception: what a status source or record raises, but ``Refused``; those after it are not asked any more.
    """
    if type(threads) is not int or threads < 1:
        raise Misuse("at least one thread works")
    presentations = tuple(presentations)
    if any(expectations.is_awaited for _, expectations in presentations):
        raise Misuse("await verify_presentation_async for a status source or record that is awaited")
    begun = [_verification(presentation, expectations, now) for presentation, expectations in presentations]
    reached = [_step_or_refusal(steps, None) for steps in begun]
    while asked := {number: step for number, step in enumerate(reached) if isinstance(step, SignatureQuestion)}:
        verified = _computed(list(asked.values()), pool, threads)
        for number, answer in zip(asked, verified, strict=True):
            reached[number] = _step_or_refusal(begun[number], answer)
    results: list[VerifiedCard | Refused] = []
    for steps, step, (_, expectations) in zip(begun, reached, presentations, strict=True):
        while not isinstance(step, (VerifiedCard, Refused)):
            try:
                step = _next_step(steps, _ask(step, expectations, now))
            except Refused as refusal:
                step = refusal
        results.append(step)
    return results


def _computed(questions: Sequence[SignatureQuestion], pool: ThreadPool, threads: int) -> list[bool]:
    """The answers, by several threads, which take one question after the other."""
    answers = [False] * len(questions)
    waiting = iter(range(len(questions)))

    def work() -> None:
        for number in waiting:
            answers[number] = questions[number].answer()

    helpers = [pool.submit(work) for _ in range(min(threads, len(questions)) - 1)]
    work()
    for helper in helpers:
        if not helper.cancel():  # one that never began has nothing left to do
            helper.result()
    return answers


def _next_step(steps: _Steps, answer: object) -> _Question | VerifiedCard:
    try:
        return steps.send(answer)
    except StopIteration as end:
        card: VerifiedCard = end.value
        return card


def _step_or_refusal(steps: _Steps, answer: object) -> _Question | VerifiedCard | Refused:
    try:
        return _next_step(steps, answer)
    except Refused as refusal:
        return refusal


def _ask(question: _Question, expectations: Expectations, now: Instant) -> object:
    """The answer, or what to await for it."""
    if isinstance(question, SignatureQuestion):
        return question.answer()
    if isinstance(question, _UseQuestion):
        return ask_single_use(question.bound, question.expected, now)
    assert not isinstance(expectations.status, Unchecked), "nothing is asked of an unchecked status"
    return expectations.status.source.status(question.reference, question.issuer, now)


def _verification(presentation: str, expectations: Expectations, now: Instant) -> _Steps:
    """Every rule, in order; gives out the questions about signatures, status and single use, and goes on with answers.

    A presentation that is not of the kind that was decided on goes no further (R-3, R-4, R-82, R-93); 7.1 comes before
    the KB-JWT (R-84), and the status is asked for when nothing else speaks against the SD-Card (VC-15).
    """
    check_instant(now)
    arrived = parse_sd_jwt(presentation, expectations.limits)
    match arrived, expectations.key_binding:
        case SdJwtWithKeyBinding(), (Answering() | Unsolicited()) as expected:
            issued = yield from reading_issued(arrived.sd_jwt, expectations, now, expected.audience)
            sd_hash, limits = issued.verified.sd_hash, expectations.limits
            bound = yield from verifying_key_binding(arrived.kb_jwt, issued.holder_key, sd_hash, expected, now, limits)
            reference = yield from _check_status(issued, expectations.status)
            judge_single_use((yield _UseQuestion(bound, expected)))
            return _verified(issued, bound, reference, expectations)
        case SdJwt(), Unbound() as unbound:
            issued = yield from reading_issued(arrived, expectations, now, None)
            reference = yield from _check_status(issued, expectations.status)
            return _verified(issued, unbound, reference, expectations)
        case SdJwt(), _:
            raise Refused(Rule.KB_MISSING, Where(Part.PRESENTATION))
        case _:
            raise Refused(Rule.KB_UNEXPECTED, Where(Part.KB_JWT))


def _check_status(issued: IssuedSdCard, status: Status) -> Generator[StatusQuestion, object, StatusReference | None]:
    claims = issued.verified.processed.claims
    reference = parse_status(claims["status"]) if "status" in claims else None
    if reference is not None and not isinstance(status, Unchecked):
        judge_status((yield StatusQuestion(reference, issued.issuer)))
    return reference


def _verified(
    issued: IssuedSdCard, key_binding: Bound | Unbound, reference: StatusReference | None, expectations: Expectations
) -> VerifiedCard:
    processed = issued.verified.processed
    return VerifiedCard(
        declared_format=issued.card_format,
        members=issued.members,
        emptied=processed.emptied,
        issuer=issued.issuer,
        subject=issued.subject,
        issued_at=issued.issued_at,
        expires_at=issued.expires_at,
        holder_key=issued.holder_key,
        key_binding=key_binding,
        status=without_source(expectations.status),
        status_reference=reference,
        vct=issued.vct,
        not_before=issued.not_before,
        audience=issued.audience,
        token_id=issued.token_id,
        hidden=processed.hidden,
        requested=expectations.requested,
    )
