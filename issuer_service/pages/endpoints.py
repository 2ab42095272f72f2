"""``GET /inspector``: the inspector. What is pasted there stays in the page."""

import re
from importlib.resources import files

from fastapi import APIRouter, Response

router = APIRouter(tags=["pages"], include_in_schema=False)

CACHE = "public, max-age=300"
_META = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')


def _read() -> tuple[bytes, dict[str, str]]:
    page = files(__package__).joinpath("inspector.html").read_text(encoding="utf-8")
    own = _META.search(page)
    assert own, "the inspector has a CSP of its own"
    headers = {
        "Content-Security-Policy": f"{own[1]}; frame-ancestors 'none'",
        "Cache-Control": CACHE,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return page.encode(), headers


_PAGE, _HEADERS = _read()


@router.get("/inspector", response_class=Response)
async def inspector() -> Response:
    """The page. Its CSP allows its own script and style, and no request."""
    return Response(_PAGE, media_type="text/html; charset=utf-8", headers=_HEADERS)
