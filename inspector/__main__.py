"""Join the sources into the page: ``python -m inspector``.

The page is ``issuer_service/pages/inspector.html``. A test fails when it is out of date.
"""

from inspector.join import PAGE, joined

if __name__ == "__main__":
    PAGE.write_bytes(joined().encode())
    print(f"{PAGE.name}: {PAGE.stat().st_size} bytes")
