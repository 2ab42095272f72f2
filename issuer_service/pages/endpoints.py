"""``GET /inspector``: the inspector. What is pasted there stays in the page."""

import re
from functools import cache
from importlib import import_module
from importlib.resources import files

from fastapi import APIRouter, Response

router = APIRouter(tags=["pages"], include_in_schema=False)

CACHE = "public, max-age=300"
_META = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')


@cache
def inspector_page() -> tuple[bytes, dict[str, str]]:
    """Return the page and its header fields. A checkout joins the sources."""
    packaged = files(__package__).joinpath("inspector.html")
    page = packaged.read_text(encoding="utf-8") if packaged.is_file() else import_module("inspector.join").joined()
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


@router.get("/inspector", response_class=Response)
def inspector() -> Response:
    """The page. Its CSP allows its own script and style, and no request."""
    page, headers = inspector_page()
    return Response(page, media_type="text/html; charset=utf-8", headers=headers)
