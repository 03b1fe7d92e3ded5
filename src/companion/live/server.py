"""`rbp serve`: the built book, and runs of its chapters, for one person on this machine.

How browsers are let in:

- The printed address holds a token, which works once. It is exchanged for two secrets: a cookie, which the browser
  sends to every port of this machine, and a key in the address's fragment, which only pages of this origin ever see.
  Pages of the book require the cookie; requests that act, or that read of runs, require both.
- `Host` must be this machine's own, or a foreign name that leads here (DNS rebinding) could read. `Origin` must be
  ours wherever something changes, or any page open in the browser could act.
- A run's page may hold whatever a table's cells held. It is shown under a random name, in a sandbox, as an origin of
  its own, which has neither the cookie nor the key, and may load nothing.
"""

import errno
import io
import ipaddress
import json
import re
import secrets
import socket
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import typer
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from companion.execute.run import find
from companion.live import requests
from companion.live.runs import Run, Runs
from companion.project import Project
from companion.render.build import run_code
from rbp.errors import DataError, ParameterError, RbpError
from rbp.io import parse_json, refusal, write_file

STATIC = Path(__file__).parent / "static"
BODY = 64_000  # bytes of a request that is no upload
COMPARED = 6  # runs at a time
VISITORS = 16  # browsers that may be in at a time; the first one goes out
KEY = "x-rbp-key"
SANDBOX = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; frame-ancestors 'self'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Json(JSONResponse):
    """JSON in ASCII characters alone: the name of a request or a file may hold what is no text."""

    def render(self, content: Any) -> bytes:
        """Return the content's bytes."""
        return json.dumps(content, allow_nan=False).encode()


class Visitors:
    """The browsers that are let in, each by its cookie, with its key; and the token that lets the next one in."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self._keys: dict[str, str] = {}

    def enter(self, token: str) -> tuple[str, str] | None:
        """Exchange the token, which works once, for a new browser's cookie and key; None for another token."""
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return None
        self.token = secrets.token_urlsafe(32)
        while len(self._keys) >= VISITORS:
            del self._keys[next(iter(self._keys))]
        cookie, key = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._keys[cookie] = key
        return cookie, key

    def knows(self, cookie: str | None) -> bool:
        """Return whether the cookie belongs to a browser that was let in."""
        return cookie in self._keys

    def acts(self, cookie: str | None, key: str | None) -> bool:
        """Return whether a request comes from one of our pages, in a browser that was let in."""
        expected = self._keys.get(cookie or "")
        return expected is not None and key is not None and secrets.compare_digest(expected.encode(), key.encode())


class AccessCheck:
    """Passes on requests to this machine's own addresses, from browsers that were let in, or to the entrance."""

    def __init__(self, app: ASGIApp, *, live: "Live") -> None:
        self.app, self.live = app, live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        refused = self.live.refusal(request)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *((n, v) for n, v in ours if n not in present)]
            await send(message)

        await (refused or self.app)(scope, receive, sending)


class Pages(StaticFiles):
    """The built book; each page gets the script that makes it live."""

    def file_response(self, full_path: Any, *args: Any, **options: Any) -> Response:
        """Return a file of the book."""
        if not str(full_path).endswith(".html"):
            return super().file_response(full_path, *args, **options)
        text = Path(full_path).read_text(encoding="utf-8")
        script = '<link rel="stylesheet" href="/live/live.css"><script src="/live/live.js" defer></script></body>'
        return HTMLResponse(
            script.join(text.rsplit("</body>", 1)), headers={"content-security-policy": "frame-ancestors 'none'"}
        )


class Live:
    """The application. announce: is called with the address for the next browser, whenever one was used."""

    def __init__(self, project: Project, host: str, port: int, runs: Runs, announce: Callable[[str], None]) -> None:
        self.project, self.host, self.port, self.runs, self.announce = project, host, port, runs, announce
        self.visitors = Visitors()
        self._shown: dict[str, Path] = {}  # by the name made by chance, the folder of pages
        self.app = Starlette(
            routes=[
                Route("/enter", self.enter),
                Route("/api/chapters/{name}", self.chapter),
                Route("/api/runs", self.all_runs),
                Route("/api/runs", self.ask, methods=["POST"]),
                Route("/api/runs/{name}", self.run),
                Route("/api/runs/{name}", self.delete, methods=["DELETE"]),
                Route("/api/runs/{name}/cancel", self.cancel, methods=["POST"]),
                Route("/api/runs/{name}/show", self.show, methods=["POST"]),
                Route("/api/runs/{name}/zip", self.zip),
                Route("/api/compare", self.compare, methods=["POST"]),
                Route("/api/uploads/{name}", self.upload, methods=["PUT"]),
                Route("/api/uploads/{name}", self.delete_upload, methods=["DELETE"]),
                Route("/shown/{chance}/{path:path}", self.shown),
                Mount("/live", StaticFiles(directory=STATIC)),
                Mount("/", Pages(directory=project.html, html=True), middleware=[Middleware(GZipMiddleware)]),
            ],
            middleware=[Middleware(AccessCheck, live=self)],
            exception_handlers=HANDLERS,
        )

    def server(self) -> uvicorn.Server:
        """Make the server that answers at a socket."""
        config = uvicorn.Config(self.app, ws="none", lifespan="off", log_level="warning", server_header=False)
        return uvicorn.Server(config)

    @property
    def address(self) -> str:
        """The address at which the next browser gets in."""
        name = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return f"http://{name}:{self.port}/enter?token={self.visitors.token}"

    # Who may come in

    @property
    def _cookie(self) -> str:
        return f"rbp-{self.port}"  # cookies know no ports: two books at once must not throw each other out

    def knows(self, request: Request) -> bool:
        """Return whether a request comes from a browser that was let in."""
        return self.visitors.knows(request.cookies.get(self._cookie))

    def refusal(self, request: Request) -> Response | None:
        """Return the refusal of a request; None if it is to be answered."""
        path = request.url.path
        host = request.headers.get("host", "")
        if len(request.headers.getlist("host")) != 1 or not self._is_here(host):
            return _plain(421, "This server answers under its own address only.")
        changes = request.method not in ("GET", "HEAD")
        origin = request.headers.get("origin")
        if (changes or origin is not None) and origin != f"http://{host}":
            return _plain(403, "The request came from another page.")
        if path == "/enter" or path.startswith("/shown/"):
            return None  # the token, and the name made by chance, let in by themselves
        if path.startswith("/api/"):
            if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
                return _plain(403, "The request came from another page.")
            if not self.visitors.acts(request.cookies.get(self._cookie), request.headers.get(KEY)):
                return _plain(401, "Open the address that rbp serve has printed.")
        elif not self.knows(request):
            return _plain(
                401, "Open the address that rbp serve has printed. (It works once; each use prints a new one.)"
            )
        return None

    def _is_here(self, host: str) -> bool:
        """Return whether a Host header means this server: loopback, or if others are let in, an address or our name."""
        name, _, port = host.rpartition(":")
        if port != str(self.port):
            return False
        if name in ("127.0.0.1", "localhost", "[::1]"):
            return True
        if is_loopback(self.host):
            return name == self.host
        if name == socket.gethostname():
            return True
        with suppress(ValueError):
            ipaddress.ip_address(name.strip("[]"))
            return True
        return False

    async def enter(self, request: Request) -> Response:
        """Let a browser in."""
        admitted = self.visitors.enter(request.query_params.get("token", ""))
        if admitted is None:
            return _plain(401, "This address was used already, or was never valid. rbp serve has printed a new one.")
        self.announce(self.address)
        cookie, key = admitted
        response = RedirectResponse(f"/live/entered.html#{key}", status_code=303)
        response.set_cookie(self._cookie, cookie, httponly=True, samesite="strict", path="/")
        return response

    # What may be requested

    async def chapter(self, request: Request) -> Response:
        """Return the form of a chapter."""
        chosen = find(self.project, request.path_params["name"])
        return Json(
            {"name": chosen.name, "title": chosen.title, "fields": requests.describe_form(self.project, chosen)}
        )

    async def all_runs(self, _: Request) -> Response:
        """Return all runs, the latest first."""
        return Json([self._summary(run) for run in self.runs.all()])

    async def ask(self, request: Request) -> Response:
        """Put a run into the queue: {"chapter": name, "parameters": {name: text}}."""
        content = await _json(request)
        chapter, texts = content.get("chapter"), content.get("parameters")
        if not isinstance(chapter, str) or not isinstance(texts, dict):
            raise ParameterError("a run needs a chapter and parameters", None, "Give both.")
        if not all(isinstance(text, str) for text in texts.values()):
            raise ParameterError("parameters must be strings", None, 'Write "0.9", not 0.9.')
        name = content.get("name", "")
        if not isinstance(name, str) or not requests.NAME.fullmatch(name):
            raise ParameterError("this is not a name of a run", None, "Use letters, digits, spaces and . , + - ( ).")
        chosen = find(self.project, chapter)
        values = await run_in_threadpool(requests.read_parameters, self.project, chosen, texts)
        key = await run_in_threadpool(lambda: chosen.short_hash(values, run_code(self.project, chosen.name)))
        description = {"name": name, "words": chosen.in_words(values) or "the book’s values", "key": key}
        return Json(self._summary(self.runs.ask(chosen.name, values, **description)), 201)

    async def run(self, request: Request) -> Response:
        """Return one run, with the end of its log."""
        name = request.path_params["name"]
        return Json(self._summary(self.runs.get(name)) | {"log": requests.without_codes(self.runs.log(name))})

    async def cancel(self, request: Request) -> Response:
        """Stop a run."""
        return Json(self._summary(self.runs.cancel(request.path_params["name"])))

    async def delete(self, request: Request) -> Response:
        """Remove a run."""
        self.runs.delete(request.path_params["name"])
        return Response(status_code=204)

    async def show(self, request: Request) -> Response:
        """Return an address at which anyone who has it can see the run's page."""
        run = self.runs.get(request.path_params["name"])
        return self._address(self.runs.page(run.id), f"{run.chapter}.html")

    def _address(self, folder: Path, page: str) -> Response:
        chance = secrets.token_urlsafe(24)
        self._shown[chance] = folder
        return Json({"address": f"/shown/{chance}/{page}"})

    async def shown(self, request: Request) -> Response:
        """Return a file of a run's page."""
        folder = self._shown.get(request.path_params["chance"])
        if folder is None:
            raise HTTPException(404)
        folder = folder.resolve()
        path = (folder / request.path_params["path"]).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise HTTPException(404)
        return FileResponse(path, headers={"content-security-policy": SANDBOX})

    async def zip(self, request: Request) -> Response:
        """Return the whole of a finished run."""
        run = self.runs.get(request.path_params["name"])
        data = await run_in_threadpool(_zipped, self.runs.page(run.id))
        name = re.sub(r"[^\w.+-]+", "-", run.name).strip("-.") or f"{run.chapter}-{run.id}"
        disposition = f"attachment; filename*=UTF-8''{quote(name)}.zip"
        return Response(data, media_type="application/zip", headers={"content-disposition": disposition})

    async def compare(self, request: Request) -> Response:
        """Compare finished runs, {"runs": [name, …]}; returns the address of the page."""
        names = (await _json(request)).get("runs")
        if not isinstance(names, list) or not 2 <= len(names) <= COMPARED or not all(isinstance(n, str) for n in names):
            raise ParameterError("these are not runs to compare", None, f"Tick 2 to {COMPARED} finished runs.")
        pages = [self.runs.page(name) for name in names]
        page = pages[0].with_name("compared") / f"{'-'.join(names)}.html"
        folders = [str(page_folder.parent) for page_folder in pages]
        await run_in_threadpool(requests.work_apart, self.project.root, "_compare", str(page), *folders)
        return self._address(page.parent, page.name)

    async def upload(self, request: Request) -> Response:
        """Take a CSV or Parquet file: the body; its name is the last part of the path."""
        data = await _body(request, requests.UPLOAD)
        path = requests.upload_path(self.project, request.path_params["name"], data)
        await run_in_threadpool(write_file, path, data, 0o600)
        try:
            await run_in_threadpool(requests.work_apart, self.project.root, "_check", str(path))
        except DataError as error:
            path.unlink(missing_ok=True)
            raise ParameterError(error.what.replace(path.name[9:], request.path_params["name"])) from None
        source = next(s for s in requests.sources(self.project) if Path(s.text).name == path.name)
        return Json({"value": source.name, "label": source.label}, 201)

    async def delete_upload(self, request: Request) -> Response:
        """Remove an uploaded table."""
        requests.delete_upload(self.project, request.path_params["name"])
        return Response(status_code=204)

    def _summary(self, run: Run) -> dict[str, Any]:
        progress = self.runs.progress(run.id) if run.state == "running" else None
        return {**run.as_dict(), "progress": progress, "message": requests.without_codes(run.message)}


def _plain(status: int, text: str) -> Response:
    return Response(text + "\n", status, media_type="text/plain")


async def _json(request: Request) -> dict[str, Any]:
    try:
        content = parse_json(await _body(request, BODY))
    except ValueError:
        raise ParameterError("this is not JSON", None, "Send an object.") from None
    if not isinstance(content, dict):
        raise ParameterError("this is not an object", None, "Send an object.")
    return content


async def _body(request: Request, most: int) -> bytes:
    """Read the body, of at most so many bytes; a longer one is not read to its end."""
    length = request.headers.get("content-length", "0")
    too_much = HTTPException(413, f"At most {most:,} bytes are accepted.", {"connection": "close"})
    if not length.isdecimal() or int(length) > most:
        raise too_much
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise too_much
        parts.append(part)
    return b"".join(parts)


def _zipped(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return buffer.getvalue()


async def _describe_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, RbpError)  # noqa: S101 (it is called for these)
    return Json({"what": error.what, "where": error.where, "remedy": error.remedy}, 422)


async def _describe_failure(_: Request, error: Exception) -> Response:
    """Answer where the system lets us write nothing."""
    assert isinstance(error, OSError)  # noqa: S101 (it is called for these)
    why = refusal(error) or error.strerror or type(error).__name__
    remedy = "Free some space: delete runs that you do not need."
    return Json({"what": f"the system does not let us write: {why}", "where": None, "remedy": remedy}, 507)


async def _describe_end(_: Request, error: Exception) -> Response:
    """Answer a request that ends early, in the middle of an upload, say."""
    return _plain(400, "The request was cut short.")


HANDLERS = {RbpError: _describe_refusal, OSError: _describe_failure, ClientDisconnect: _describe_end}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def serve(project: Project, host: str, port: int, *, i_know: bool, minutes: float) -> None:
    """Serve the live book until interrupted. Raises RbpError if there is none, no port, or no leave to listen there."""
    if not (project.html / "index.html").exists():
        raise RbpError("the book is not built yet", str(project.html), "Run `rbp book` first.")
    if not is_loopback(host) and not i_know:
        fault = f"at {host}, other machines could run chapters on this one"
        raise ParameterError(fault, "--host", "Leave it out, or give --i-know.")
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()  # who follows the address at once waits until the server is up
    except OSError as error:
        listening.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            remedy = "Give another: rbp serve --port 8001, or --port 0 for any free one."
            raise RbpError(f"the port {port} is taken", host, remedy) from None
        raise RbpError(f"cannot listen: {error.strerror or error}", host, "Leave --host out.") from None
    runs = Runs(project, limit=60 * minutes)
    port = listening.getsockname()[1]
    live = Live(project, host, port, runs, lambda address: typer.echo(f"Another browser can open it once at {address}"))
    if not is_loopback(host):
        typer.echo("Whoever reaches this machine and has the address below may read the book and run its chapters.")
        typer.echo("Nothing is encrypted: anyone who listens on the network can do the same.")
    typer.echo(f"The book is at {live.address} (Ctrl-C ends this)")
    try:
        live.server().run(sockets=[listening])
    finally:
        runs.close()
        listening.close()
