"""Where the files of an archive lie: in a folder, or in a bucket of an object store.

A file is put there whole or not at all, and never changed: both kinds promise that.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_INSTALLED: Final = (
    "{url}: the library for object stores is not here; install it with "
    "`pip install 'gangline[archive]'`"
)
RETRIES: Final = 4


class ArchiveError(Exception):
    """An archive cannot be used; the message names the place and says why."""


class Shelf(Protocol):
    """A place for files, named by paths with slashes."""

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, in order."""
        ...

    def place_of(self, name: str) -> str:
        """How a person names a file: its path, or its URL."""
        ...

    @contextmanager
    def fetched(self, name: str) -> Iterator[Path]:
        """A file to read from, for as long as the context is open."""
        ...

    @contextmanager
    def being_made(self, folder: str) -> Iterator[Path]:
        """Where to write a file that is to be put into this folder."""
        ...

    def put(self, made: Path, name: str) -> None:
        """Give a file that was made its name. ArchiveError where there is one already."""
        ...


class FolderShelf:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        """The names of the archive's files in a folder, in order."""
        return sorted(f"{folder}/{path.name}" for path in (self._root / folder).glob("*.avro"))

    def place_of(self, name: str) -> str:
        """Its path."""
        return str(self._root / name)

    @contextmanager
    def fetched(self, name: str) -> Iterator[Path]:
        """The file itself."""
        yield self._root / name

    @contextmanager
    def being_made(self, folder: str) -> Iterator[Path]:
        """A file beside the others, on the same disk."""
        (self._root / folder).mkdir(parents=True, exist_ok=True)
        yield self._root / folder / "next.part"

    def put(self, made: Path, name: str) -> None:
        """Rename it."""
        made.replace(self._root / name)


class BucketShelf:
    """A bucket, by the URL that the store's users know: `s3://bucket/prefix`.

    Keys, region and endpoint come from the environment, as for all tools of that store.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        try:
            import obstore  # noqa: PLC0415 - an extra
            from obstore.store import from_url  # noqa: PLC0415
        except ImportError as error:
            raise ArchiveError(NOT_INSTALLED.format(url=url)) from error
        self._api: Any = obstore
        with self._told():
            self._store: Any = from_url(self._url, retry_config={"max_retries": RETRIES})

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the store says, in one line that names the place."""
        try:
            yield
        except (self._api.exceptions.BaseError, OSError, ValueError) as error:
            first = str(error).strip().split("\n", maxsplit=1)[0]
            raise ArchiveError(f"{self._url}: {first}") from error

    def names(self, folder: str) -> list[str]:
        """The names of the archive's files there, in order."""
        with self._told():
            found = [each["path"] for page in self._listed(folder) for each in page]
        return sorted(name for name in found if name.endswith(".avro"))

    def _listed(self, folder: str) -> Any:  # noqa: ANN401 - pages of the library
        return self._api.list(self._store, prefix=f"{folder}/")

    def place_of(self, name: str) -> str:
        """Its URL."""
        return f"{self._url}/{name}"

    @contextmanager
    def fetched(self, name: str) -> Iterator[Path]:
        """A copy on this machine, that is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="gangline-archive-") as folder:
            copy = Path(folder) / name.rsplit("/", maxsplit=1)[-1]
            with self._told(), copy.open("wb") as file:
                for part in self._api.get(self._store, name):
                    file.write(part)
            yield copy

    @contextmanager
    def being_made(self, folder: str) -> Iterator[Path]:
        """A file of this machine, that is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="gangline-archive-") as room:
            yield Path(room) / "next.part"

    def put(self, made: Path, name: str) -> None:
        """Send it whole; who was faster keeps the name."""
        with self._told(), made.open("rb") as file:
            self._api.put(self._store, name, file, mode="create", use_multipart=False)


def shelf_at(place: str) -> Shelf:
    """The folder or bucket of a path or URL."""
    return BucketShelf(place) if "://" in place else FolderShelf(Path(place))
