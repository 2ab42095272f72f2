"""The transports for ``httpx``, which a2a-sdk uses.

Use: ``ClientConfig(httpx_client=httpx.AsyncClient(transport=HttpxAsyncProvedTransport(session, …)))``.
"""

import httpx

from sdcard.web.proved_client import ProvesFirst


class HttpxProvedTransport(ProvesFirst, httpx.BaseTransport):
    """Transport for ``httpx.Client``."""


class HttpxAsyncProvedTransport(ProvesFirst, httpx.AsyncBaseTransport):
    """Transport for ``httpx.AsyncClient``."""
