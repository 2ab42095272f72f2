"""Joins the sources into ``issuer_service/pages/inspector.html``: ``python -m inspector``. A test says when."""

from inspector.join import PAGE, joined

if __name__ == "__main__":
    PAGE.write_bytes(joined().encode())
    print(f"{PAGE.name}: {PAGE.stat().st_size} bytes")
