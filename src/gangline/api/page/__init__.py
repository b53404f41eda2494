"""The page at `/`: one HTML file, its styles and its scripts, all from this package.

`index.html` is the frame of every page, `static/` holds everything else; what it shows comes from
`api/page_data.py` and the routes of every other client, and it follows `/v1/events`. Nothing is
loaded from other sites; the HTML has no script of its own. `static/vendor` holds what others wrote,
each beside its licence.
"""

from pathlib import Path
from typing import Final

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

_HERE: Final = Path(__file__).parent
_PAGES: Final = (
    "/queue", "/jobs", "/jobs/{job}", "/teams", "/nodes", "/nodes/{node}", "/decisions",
)  # fmt: skip
_NO_PAGES: Final = ("/v1/", "/page/", "/static/")


@router.get("/")
def index() -> FileResponse:
    """The frame; which page it shows, its scripts read in the address."""
    return FileResponse(_HERE / "index.html", headers={"Cache-Control": "no-cache"})


@router.get("/favicon.ico")
def favicon() -> RedirectResponse:
    """Browsers ask for it unasked."""
    return RedirectResponse("/static/icon.svg", status_code=308)


def mount(app: FastAPI) -> None:
    """Serve the page's files, and its frame for each of its addresses."""
    for path in _PAGES:
        app.add_route(path, _frame, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")


def nowhere(request: Request) -> FileResponse | None:
    """For a browser that asks for a page that is none: the frame, which says so."""
    path = request.url.path
    wanted = "text/html" in request.headers.get("accept", "") and request.method == "GET"
    if not wanted or path.startswith(_NO_PAGES):
        return None
    return FileResponse(_HERE / "index.html", status_code=404)


async def _frame(_: Request) -> FileResponse:
    return index()
