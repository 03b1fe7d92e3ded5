"""Who asks the live book: as a browser would, or as none would."""

import http.client
import json
import time

from companion.live.runs import ENDED


def ended(runs, name):
    until = time.monotonic() + 300
    while (run := runs.get(name)).state not in ENDED:
        assert time.monotonic() < until, run
        time.sleep(0.02)
    return run


def running(runs, name):
    """Wait until the process of a run says something."""
    until = time.monotonic() + 300
    while not runs.progress(name):
        assert time.monotonic() < until, runs.get(name)
        time.sleep(0.01)


class Browser:
    """Asks a server as a browser would, or as none would."""

    def __init__(self, live):
        self.live = live
        self.cookie = self.key = ""

    def __call__(self, method, path, body=None, *, drop=(), **other):
        host = f"127.0.0.1:{self.live.port}"
        headers = {"Host": host, "Cookie": self.cookie, "X-RBP-Key": self.key}
        if method not in ("GET", "HEAD"):
            headers["Origin"] = f"http://{host}"
        headers |= {name.replace("_", "-"): value for name, value in other.items()}
        headers = {name: value for name, value in headers.items() if name not in drop}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.live.port, timeout=120)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if data is not None and "Content-Length" not in headers:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            answer = connection.getresponse()
            text = answer.read()
            self.headers = answer.headers
            return answer.status, json.loads(text) if "json" in answer.headers.get("content-type", "") else text
        finally:
            connection.close()

    def enter(self):
        status, _ = self("GET", self.live.address.partition(str(self.live.port))[2])
        assert status == 303
        self.cookie = self.headers["set-cookie"].partition(";")[0]
        self.key = self.headers["location"].partition("#")[2]
        return self
