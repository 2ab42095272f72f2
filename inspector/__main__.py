"""Write the page into ``build/inspector.html``: ``python -m inspector``."""

from inspector.join import PAGE, write_page

if __name__ == "__main__":
    write_page()
    print(f"{PAGE}: {PAGE.stat().st_size} bytes")
