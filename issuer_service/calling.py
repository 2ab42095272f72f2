"""Finding out who is calling: the one way from a request to a ``Caller``, for tokens of every kind."""

from starlette.requests import Request

from issuer_service.access import EXTERNAL, Caller, Scope, check_token, find_token
from issuer_service.addresses import neighbourhood
from issuer_service.exchanges import digest_of, exchange_of
from issuer_service.stores.ports import TokenRow
from issuer_service.wiring import Wiring
from sdcard.errors import Refused
from sdcard.instants import Instant
from sdcard.oauth.access_token import is_jwt
from sdcard.oauth.bearer import parse_credentials
from sdcard.rules import Rule


async def authorize(request: Request, wiring: Wiring, scope: Scope) -> Caller:
    """Find out who is calling, and that their token is for this. Comes before anything else is read of a request.

    Args:
        request: with the ``Authorization`` header.
        wiring: knows tokens, and how often somebody may ask.
        scope: what the token must be for.

    Raises:
        Refused: ``token.missing``, ``token.invalid``, ``token.scope``, ``token.keys-unavailable``, ``rate.exceeded``
            or ``store.unavailable``.
    """
    now, exchange = wiring.clock.now(), exchange_of(request.scope)
    text = parse_credentials(request.headers.getlist("authorization"))
    client = neighbourhood(exchange.client)
    wiring.rates.failures.check(client, now)
    try:
        token = await _find(wiring, text, now)
    except Refused as refusal:
        if refusal.rule is Rule.TOKEN_INVALID:
            wiring.rates.failures.take(client, now)
        raise
    exchange.caller = digest_of(token.subject)
    wiring.rates.tokens.take(token.subject if token.subject.startswith(EXTERNAL) else token.digest, now)
    return check_token(token, scope)


async def _find(wiring: Wiring, text: str, now: Instant) -> TokenRow:
    if wiring.authorization_server is not None and is_jwt(text):
        return await wiring.authorization_server.read(text, now)
    return await find_token(wiring.store, text, now)
