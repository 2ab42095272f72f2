"""Finding out who is calling: the one way from a request to a ``Caller``, for tokens of every kind."""

from collections.abc import Sequence

from starlette.requests import Request

from issuer_service.access import (
    EXTERNAL,
    Caller,
    Scope,
    check_token,
    find_token,
    parse_client_credentials,
)
from issuer_service.addresses import neighbourhood
from issuer_service.exchanges import digest_of, exchange_of
from issuer_service.stores.rows.agents import TokenRow
from issuer_service.wiring import Wiring
from sdcard.errors import Refused
from sdcard.instants import Instant
from sdcard.oauth.access_token import is_jwt
from sdcard.oauth.bearer import WHERE, parse_credentials
from sdcard.rules import Rule


async def authorize(request: Request, wiring: Wiring, *scopes: Scope) -> Caller:
    """Find out who is calling, and that their token is for this. Comes before anything else is read of a request.

    Args:
        request: with the ``Authorization`` header.
        wiring: knows tokens, and how often somebody may ask.
        scopes: one of which the token must have.

    Raises:
        Refused: ``token.missing``, ``token.invalid``, ``token.scope``, ``token.keys-unavailable``, ``rate.exceeded``
            or ``store.unavailable``.
    """
    text = parse_credentials(request.headers.getlist("authorization"))
    return await _authorize(request, wiring, text, None, scopes)


async def authorize_client(request: Request, wiring: Wiring, *scopes: Scope) -> Caller:
    """The same for endpoints of OAuth, to which clients also come with ``client_secret_basic``.

    Raises:
        Refused: as ``authorize``.
    """
    name, text = parse_client_credentials(request.headers.getlist("authorization"))
    return await _authorize(request, wiring, text, name, scopes)


async def _authorize(request: Request, wiring: Wiring, text: str, name: str | None, scopes: Sequence[Scope]) -> Caller:
    now, exchange = wiring.clock.now(), exchange_of(request.scope)
    client = neighbourhood(exchange.client)
    wiring.rates.failures.check(client, now)
    try:
        token = await _find(wiring, text, now)
        if name not in (None, token.subject):
            raise Refused(Rule.TOKEN_INVALID, WHERE)
    except Refused as refusal:
        if refusal.rule is Rule.TOKEN_INVALID:
            wiring.rates.failures.take(client, now)
        raise
    exchange.caller = digest_of(token.subject)
    wiring.rates.tokens.take(token.subject if token.subject.startswith(EXTERNAL) else token.digest, now)
    return check_token(token, *scopes)


async def _find(wiring: Wiring, text: str, now: Instant) -> TokenRow:
    if wiring.authorization_server is not None and is_jwt(text):
        return await wiring.authorization_server.read(text, now)
    return await find_token(wiring.store, text, now)
