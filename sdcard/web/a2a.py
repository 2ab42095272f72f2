"""Presenting between agents of a2a-sdk 1.x, by its own extension points.

The agent that demands puts ``SdCardMiddleware`` in front of its app, declares the extension in its card and builds its
call contexts with ``SdCardContextBuilder``. The one that presents gives ``ClientConfig`` an ``httpx`` client with
``HttpxSdCardAuth`` and its client an ``SdCardInterceptor``. a2a-sdk 0.3 works with the first of each.
"""

from a2a.auth.user import User
from a2a.client.client import ClientCallContext
from a2a.client.interceptors import AfterArgs, BeforeArgs, ClientCallInterceptor
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.extensions.common import find_extension_by_uri
from a2a.server.context import ServerCallContext
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import AgentExtension
from starlette.requests import Request

from sdcard.errors import Misuse
from sdcard.http_auth import INTERACTION_HEADER, SCHEME
from sdcard.limits import is_interaction_id
from sdcard.verifier import VerifiedCard
from sdcard.web.authenticate import STATE

EXTENSION_URI = "urn:sd-card:a2a:presentation:1"
"""Names the extension in cards and in ``A2A-Extensions``. Nothing is fetched from it."""


def presentation_extension(audience: str) -> AgentExtension:
    """Build the ``capabilities.extensions`` entry of an agent that demands an SD-Card.

    The audience is there for people who set up a ``Presenter``. A card is no reason to believe it: an attacker who
    copies the card of another agent would have that one's challenges answered.
    """
    extension = AgentExtension(
        uri=EXTENSION_URI,
        description="Callers present an SD-Card with key binding, in answer to a challenge (401).",
        required=True,
    )
    extension.params.update({"scheme": SCHEME, "audience": audience})
    return extension


class SdCardUser(User):
    """The caller: an agent that a trusted Issuer vouches for."""

    def __init__(self, card: VerifiedCard) -> None:
        self.card = card

    @property
    def is_authenticated(self) -> bool:
        """Always: there is one only where a card was admitted."""
        return True

    @property
    def user_name(self) -> str:
        """Return Issuer and subject as one name.

        The SDK keeps tasks by it, and another Issuer's agent may have the same subject.
        """
        return f"{self.card.issuer} {self.card.subject}"


class SdCardContextBuilder(DefaultServerCallContextBuilder):
    """A builder of call contexts with the verified card and the user.

    The ``VerifiedCard`` is in ``call_context.state["sd_card"]``, and the caller is in ``call_context.user``.
    """

    def build(self, request: Request) -> ServerCallContext:
        """The call context of a request that ``SdCardMiddleware`` let through.

        Raises:
            Misuse: when ``SdCardMiddleware`` does not stand in front of the app.
        """
        card = request.scope.get("state", {}).get(STATE)
        if not isinstance(card, VerifiedCard):
            raise Misuse("put Demanding in front of the app")
        context = super().build(request)
        context.state[STATE] = card
        context.user = SdCardUser(card)
        return context


class SdCardInterceptor(ClientCallInterceptor):
    """Interceptor that uses the extension, for agents that declare it.

    It says that the extension is used, and to which interaction each call belongs.

    A call whose context has the header ``SD-Card-Interaction`` keeps its own.
    """

    def __init__(self, interaction_id: str | None = None) -> None:
        if interaction_id is not None and not is_interaction_id(interaction_id):
            raise Misuse("an interaction id in a header is 1 to 128 visible ASCII characters")
        self._interaction_id = interaction_id

    async def before(self, args: BeforeArgs) -> None:
        """Set the headers of one call."""
        if find_extension_by_uri(args.agent_card, EXTENSION_URI) is None:
            return
        context = args.context or ClientCallContext()
        parameters = ServiceParametersFactory.create_from(
            context.service_parameters, [with_a2a_extensions([EXTENSION_URI])]
        )
        if self._interaction_id is not None:
            parameters.setdefault(INTERACTION_HEADER, self._interaction_id)
        args.context = context.model_copy(update={"service_parameters": parameters})

    async def after(self, args: AfterArgs) -> None:
        """Do nothing."""
