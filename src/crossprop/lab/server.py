"""The lab's web server: the page, its catalogue, and streams of frames; for this machine only."""

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from crossprop._support.interrupts import Stopped
from crossprop.lab.catalogue import catalogue
from crossprop.lab.live import PageRuns, Shared, encoded
from crossprop.lab.settings import read_setting
from crossprop.registry import one_line

HOST = "127.0.0.1"
HOSTS = [HOST, "localhost"]
"""Host names that are served. Others are refused: a foreign site could point its own name here (DNS rebinding)."""
MOST_PAGES = 8
MOST_CONNECTIONS = 64
"""At the limit a new connection closes the oldest idle one: any user of this machine can connect."""
ACCEPTED = 16
"""Connections that are accepted at a time."""
MOST_BODY = 2**16
"""Bytes of a setting."""
FILES = {
    "": ("lab/page", "lab.html", "text/html"),
    "page.css": ("experiments/page", "page.css", "text/css"),
    "lab.css": ("lab/page", "lab.css", "text/css"),
    **{name: ("lab/page", name, "text/javascript") for name in ("lab.js", "chart.js", "controls.js", "pictures.js")},
}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
REFUSED = "This is a crossprop lab. Open it with the address that its terminal shows, which has a token.\n"


class Guard:
    """Refuses requests whose address does not begin with the token, and sets headers on every answer."""

    def __init__(self, app: ASGIApp, token: str):
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                further = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *further]
            await send(message)

        given = scope["path"].removeprefix("/").partition("/")[0]
        allowed = secrets.compare_digest(given.encode(), self.token.encode())
        app = self.app if allowed else PlainTextResponse(REFUSED, status_code=403)
        await app(scope, receive, send_with_headers)


class Pages:
    """The pages that are open: the runs of each, by the identifier that the page chose."""

    def __init__(self, shared: Shared):
        self.shared = shared
        self.runs: dict[str, PageRuns] = {}

    async def run(self, request: Request) -> Response:
        """Runs a setting, and answers with a line of JSON for each frame, for as long as the page listens."""
        try:
            body = await _body(request)
            page = _page_of(body)
            self._stop(page)
            # A data set may have to be read; meanwhile other pages are served.
            running = PageRuns(self.shared, await asyncio.to_thread(read_setting, body.get("setting")))
            self._stop(page)
            if len(self.runs) >= MOST_PAGES:
                raise ValueError(f"{MOST_PAGES} pages of this lab are running: close one of them")
        except Exception as problem:  # a user's learner or stream may raise anything
            return _problem(problem)
        self.runs[page] = running
        return StreamingResponse(self._lines(page, running), media_type="application/x-ndjson")

    def _stop(self, page: str) -> None:
        """Ends what the page ran before, even if the browser has not closed its connection yet."""
        if (before := self.runs.pop(page, None)) is not None:
            before.stop.set()

    async def _lines(self, page: str, running: PageRuns) -> AsyncIterator[bytes]:
        try:
            async for frame in running.frames():
                yield encoded(frame)
        except Stopped:
            pass
        except Exception as problem:
            yield encoded({"kind": "error", "error": _text(problem)})
        finally:
            running.stop.set()
            if self.runs.get(page) is running:
                del self.runs[page]

    async def pause(self, request: Request) -> Response:
        """Pauses a page's runs, or lets them go on."""
        try:
            body = await _body(request)
            running = self.runs.get(_page_of(body))
            if not isinstance(body.get("paused"), bool):
                raise TypeError(f"paused must be true or false, got {body.get('paused')!r}")
        except (ValueError, TypeError, RecursionError) as problem:
            return _problem(problem)
        if running is not None:
            running.paused = body["paused"]
        return JSONResponse({"paused": running is not None and running.paused})


async def _body(request: Request) -> dict[str, Any]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MOST_BODY:
            raise ValueError(f"a request must have at most {MOST_BODY} bytes")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("a request must be JSON, and not nested deeply") from None
    if not isinstance(body, dict):
        raise TypeError(f"a request must be an object, got {type(body).__name__}")
    return body


def _page_of(body: dict[str, Any]) -> str:
    page = body.get("page")
    if not isinstance(page, str) or not 1 <= len(page) <= 64:
        raise ValueError(f"page must be an identifier of 1 to 64 characters, got {page!r}")
    return page


def _text(problem: Exception) -> str:
    expected = isinstance(problem, ValueError | TypeError | OSError | ModuleNotFoundError)
    return str(problem) if expected and str(problem) else one_line(problem)


def _problem(problem: Exception) -> Response:
    return JSONResponse({"error": _text(problem)}, status_code=422)


def application(shared: Shared, token: str) -> Starlette:
    """The lab as an ASGI application; its addresses begin with the token."""
    pages = Pages(shared)
    offered = catalogue()
    routes = [
        Route("/catalogue", lambda request: JSONResponse(offered)),
        Route("/runs", pages.run, methods=["POST"]),
        Route("/pause", pages.pause, methods=["POST"]),
        *(Route(f"/{name}", _file(*where)) for name, where in FILES.items()),
    ]
    app = Starlette(
        routes=[Mount(f"/{token}", routes=routes)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS), Middleware(Guard, token=token)],
    )
    app.state.pages = pages
    return app


def _file(folder: str, name: str, kind: str) -> Callable[[Request], Response]:
    text = (files("crossprop") / folder / name).read_text(encoding="utf-8")
    return lambda request: Response(text, media_type=kind)


def bind(port: int) -> socket.socket:
    """A socket on this machine's own address; 0 is any port that is free."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # connections wait until the server is up
    except OSError as problem:
        listening.close()
        raise OSError(f"port {port} cannot be used ({problem.strerror}): give another one with --port") from None
    return listening


class Connections:
    """Makes the protocol of each new connection, and bounds how many are open."""

    def __init__(self):
        self.open: list[H11Protocol] = []

    def __call__(self, **given: Any) -> H11Protocol:
        self.open = [each for each in self.open if not each.transport or not each.transport.is_closing()]
        idle = (each for each in self.open if each.transport and (not each.cycle or each.cycle.response_complete))
        if len(self.open) >= MOST_CONNECTIONS and (oldest := next(idle, None)) is not None:
            oldest.transport.abort()
        self.open.append(H11Protocol(**given))
        return self.open[-1]


def _log_unless_refused(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """No traceback where file descriptors run out: asyncio accepts the connection later."""
    if not isinstance(context.get("exception"), OSError):
        loop.default_exception_handler(context)


class Lab:
    """A running lab: `serve` blocks until Ctrl-C or `stop`."""

    def __init__(self, port: int = 0, imports: tuple[str, ...] = ()):
        self.socket = bind(port)
        self.token = secrets.token_urlsafe(16)
        self.shared = Shared(imports, lambda: self.server.should_exit)
        config = uvicorn.Config(
            application(self.shared, self.token),
            http=Connections(),  # pyright: ignore[reportArgumentType]
            backlog=ACCEPTED,
            log_config=None,  # that of the process stays as it is
            log_level="error",
            lifespan="off",
            ws="none",
            server_header=False,
        )
        self.server = uvicorn.Server(config)
        self.has_ended = True
        """Whether all work ended with `serve`; a compilation cannot be stopped."""

    @property
    def url(self) -> str:
        """The page's address, with its token."""
        return f"http://{HOST}:{self.socket.getsockname()[1]}/{self.token}/"

    def serve(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self.has_ended = self.shared.close()
            self.socket.close()

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(_log_unless_refused)
        await self.server.serve(sockets=[self.socket])

    def stop(self) -> None:
        """Ends `serve` from another thread."""
        self.server.should_exit = True
