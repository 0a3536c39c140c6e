#!/usr/bin/python3
"""A stock API to try the example with: prices by symbol, for whoever has the key."""

import http.server
import json
import os

KEY = os.environ["STOCK_API_KEY"]


class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers["X-Api-Key"] != KEY:
            return self.send_error(403)
        _, _, action, symbol = self.path.split("/")
        prices = [41.5] if action == "now" else [40.0, 40.75, 41.5]
        body = json.dumps({"symbol": symbol, "prices": prices}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.HTTPServer(("127.0.0.1", 8642), Api).serve_forever()
