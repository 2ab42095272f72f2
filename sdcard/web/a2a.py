"""SD-Card presentations between agents of a2a-sdk 1.x.

A server puts ``SdCardMiddleware`` in front of its app, declares the extension in its card, and builds its call contexts
with ``SdCardContextBuilder``. A client gives ``ClientConfig`` an ``httpx`` client with ``HttpxSdCardAuth``, and its
client an ``SdCardInterceptor``. The middleware and the ``httpx`` client also work with a2a-sdk 0.3.
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
from sdcard.profile import is_interaction_id
from sdcard.verifier import VerifiedCard
from sdcard.web.authenticate import STATE

EXTENSION_URI = "urn:sd-card:a2a:presentation:1"
"""Identifies the extension in cards and in ``A2A-Extensions``. It is not fetched."""


def presentation_extension(audience: str) -> AgentExtension:
    """Build the extension entry of an agent card that requires an SD-Card.

    The audience is for people who configure a ``Presenter``. A client must not trust it: an attacker who copies the
    card of another agent would get that agent's challenges answered.
    """
    extension = AgentExtension(
        uri=EXTENSION_URI,
        description="Callers present an SD-Card with key binding, in answer to a challenge (401).",
        required=True,
    )
    extension.params.update({"scheme": SCHEME, "audience": audience})
    return extension


class SdCardUser(User):
    """A caller whose SD-Card was verified."""

    def __init__(self, card: VerifiedCard) -> None:
        self.card = card

    @property
    def is_authenticated(self) -> bool:
        """Always true."""
        return True

    @property
    def user_name(self) -> str:
        """Issuer and subject.

        The SDK stores tasks by it, and subjects are unique per Issuer only.
        """
        return f"{self.card.issuer} {self.card.subject}"


class SdCardContextBuilder(DefaultServerCallContextBuilder):
    """Builds call contexts with the verified card and the user.

    The ``VerifiedCard`` is in ``call_context.state["sd_card"]``, and the caller in ``call_context.user``.
    """

    def build(self, request: Request) -> ServerCallContext:
        """Build the call context of a request that passed ``SdCardMiddleware``.

        Raises:
            Misuse: without ``SdCardMiddleware`` in front of the app.
        """
        card = request.scope.get("state", {}).get(STATE)
        if not isinstance(card, VerifiedCard):
            raise Misuse("put SdCardMiddleware in front of the app")
        context = super().build(request)
        context.state[STATE] = card
        context.user = SdCardUser(card)
        return context


class SdCardInterceptor(ClientCallInterceptor):
    """Activates the extension for agents that declare it, and sets the interaction.

    A call whose context has the header ``SD-Card-Interaction`` keeps its own interaction.
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
