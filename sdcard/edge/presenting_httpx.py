"""The same for ``httpx``, which a2a-sdk uses: ``ClientConfig(httpx_client=httpx.AsyncClient(auth=…))``."""

import httpx

from sdcard.edge.presenting import AnswersChallenges


class HttpxSdCardAuth(AnswersChallenges, httpx.Auth):
    """``httpx.AsyncClient(auth=HttpxSdCardAuth(presenter))``. Requests to other servers go out as they are."""
