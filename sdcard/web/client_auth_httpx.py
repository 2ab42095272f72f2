"""The auth class for ``httpx``, which a2a-sdk uses.

Use: ``ClientConfig(httpx_client=httpx.AsyncClient(auth=…))``.
"""

import httpx

from sdcard.web.client_auth import AnswersChallenges


class HttpxSdCardAuth(AnswersChallenges, httpx.Auth):
    """Auth class: ``httpx.AsyncClient(auth=HttpxSdCardAuth(presenter))``.

    Requests to other servers are sent unchanged.
    """
