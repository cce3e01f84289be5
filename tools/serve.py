"""Serve the built book on this machine: `make serve` calls this.

A page opened as a file may not start Python; one that is served may.
"""

from __future__ import annotations

import functools
import http.server
import sys
from pathlib import Path

HTML = Path(__file__).resolve().parents[1] / "_build" / "html"
PORT = 8000


def serve(folder: Path, port: int = PORT) -> http.server.ThreadingHTTPServer:
    """A server of the folder on the loopback address; any free port if the wanted one is taken."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError:
        return http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)


def main() -> int:
    """Serve until interrupted; exit code 1 if there is no book."""
    if not (HTML / "index.html").is_file():
        print("No book: run `make book` first.", file=sys.stderr)
        return 1
    with serve(HTML) as server:
        print(f"The book is at http://127.0.0.1:{server.server_port}/ (Ctrl+C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
