"""Auth class and transports for ``httpx``, which a2a-sdk uses."""

import httpx

from sdcard.web.clients import AnswersChallenges, ProvesFirst

# -- The auth class for ``httpx``, which a2a-sdk uses -----------------------------------------------------------------
# Use: ``ClientConfig(httpx_client=httpx.AsyncClient(auth=…))``.


class HttpxSdCardAuth(AnswersChallenges, httpx.Auth):
    """Auth class: ``httpx.AsyncClient(auth=HttpxSdCardAuth(presenter))``.

    Requests to other servers are sent unchanged.
    """


# -- The transports for ``httpx``, which a2a-sdk uses -----------------------------------------------------------------
# Use: ``ClientConfig(httpx_client=httpx.AsyncClient(transport=HttpxAsyncProvedTransport(session, …)))``.


class HttpxProvedTransport(ProvesFirst, httpx.BaseTransport):
    """Transport for ``httpx.Client``."""


class HttpxAsyncProvedTransport(ProvesFirst, httpx.AsyncBaseTransport):
    """Transport for ``httpx.AsyncClient``."""
