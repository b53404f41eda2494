"""The page at `/`: one HTML file, its style and its scripts, all from this package.

`index.html` is the frame, `static/` holds everything else; the page reads the same routes as every
other client and follows `/v1/events`. Nothing is loaded from other sites; the HTML has no script.
"""

from pathlib import Path
from typing import Final

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, RedirectResponse
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

_HERE: Final = Path(__file__).parent


@router.get("/")
def index() -> FileResponse:
    """The page."""
    return FileResponse(_HERE / "index.html", headers={"Cache-Control": "no-cache"})


@router.get("/favicon.ico")
def favicon() -> RedirectResponse:
    """Browsers ask for it unasked."""
    return RedirectResponse("/static/icon.svg", status_code=308)


def mount(app: FastAPI) -> None:
    """Serve the page's files."""
    app.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")
