"""Identification of the caller: from a request to a ``Caller``.

All kinds of tokens take this one path.
"""

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
from issuer_service.exchanges import digest_of, exchange_of, header_values
from issuer_service.stores.rows.agents import TokenRow
from issuer_service.wiring import Wiring
from sdcard.errors import Refused
from sdcard.instants import Instant
from sdcard.oauth.access_token import is_jwt
from sdcard.oauth.bearer import WHERE, parse_credentials
from sdcard.rules import Rule


async def authorize(request: Request, wiring: Wiring, *scopes: Scope) -> Caller:
    """Authenticate the caller, and check that their token permits the request.

    This comes before anything else is read of a request.

    Args:
        request: with the ``Authorization`` header.
        wiring: has the tokens and the rate limits.
        scopes: one of which the token must have.

    Raises:
        Refused: ``token.missing``, ``token.invalid``, ``token.scope``, ``token.keys-unavailable``, ``rate.exceeded``
            or ``store.unavailable``.
    """
    text = parse_credentials(header_values(request.scope, b"authorization"))
    return check_token(await authenticate(request, wiring, text), *scopes)


async def authorize_client(request: Request, wiring: Wiring, *scopes: Scope) -> Caller:
    """Authorize a client at an OAuth endpoint.

    Clients may also authenticate with ``client_secret_basic`` there.

    Raises:
        Refused: as ``authorize``.
    """
    name, text = parse_client_credentials(header_values(request.scope, b"authorization"))
    return check_token(await authenticate(request, wiring, text, name), *scopes)


async def authenticate(request: Request, wiring: Wiring, text: str, name: str | None = None) -> TokenRow:
    """Authenticate a token, whatever it is for.

    A bad token counts against the address that sent it.

    A good token passes however many bad ones came from its address: nobody guesses 256 bits, or a signature.

    Args:
        request: the request that it came with, however it did.
        wiring: as for ``authorize``.
        text: the token.
        name: whose token it has to be, where the client said so.

    Raises:
        Refused: as ``authorize``, but for scopes.
    """
    now, exchange = wiring.clock.now(), exchange_of(request.scope)
    client = neighbourhood(exchange.client)
    try:
        token = await _find(wiring, text, now)
        if name not in (None, token.subject):
            raise Refused(Rule.TOKEN_INVALID, WHERE)
    except Refused as refusal:
        if refusal.rule is Rule.TOKEN_INVALID:
            wiring.rates.failures.take(client, now)
        raise
    take_turn(request, wiring, token)
    return token


def take_turn(request: Request, wiring: Wiring, token: TokenRow) -> None:
    """Have the request count as one with this token.

    Raises:
        Refused: ``rate.exceeded``.
    """
    exchange_of(request.scope).caller = digest_of(token.subject)
    key = token.subject if token.subject.startswith(EXTERNAL) else token.digest
    wiring.rates.tokens.take(key, wiring.clock.now())
    exchange_of(request.scope).turn = key


async def _find(wiring: Wiring, text: str, now: Instant) -> TokenRow:
    if wiring.authorization_server is not None and is_jwt(text):
        return await wiring.authorization_server.read(text, now)
    return await find_token(wiring.store, text, now)
