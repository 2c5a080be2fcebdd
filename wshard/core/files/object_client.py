"""Clients of object stores: obstore for S3, Google Cloud, Azure and HTTP, and fsspec for every other scheme."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote

from wshard.core.files.key_pages import KeyPages, quote_etag, status_of
from wshard.core.files.listing import KeyPage, ObjectStatus
from wshard.core.messages import without_passwords
from wshard.core.plugins import import_library
from wshard.errors import FormatError, ObjectStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

OBSTORE: Final = ("s3", "gs", "az", "https", "http")
"""Schemes that obstore reads."""

_STREAMED: Final = ("s3://", "gs://")  # whose keys are in order; others may list folders like objects

_DEADLINE: Final = timedelta(seconds=30)  # for repeating a request
_STALL: Final = timedelta(seconds=10)  # without a byte of an answer
_LONGEST: Final = timedelta(minutes=10)  # of one request, whose bytes may come slowly
_TRIES: Final = 4  # of an answer that is not what was asked for; obstore itself repeats requests that fail
_PAUSE: Final = 0.1  # seconds before the second try, doubled before each of the next
_IDENTITIES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_METADATA_ENDPOINT",
)
_ENDPOINTS: Final = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "gs": ("STORAGE_EMULATOR_HOST",)}
_NO_ACCOUNT: Final = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
_STATUS: Final = re.compile(r"status code: (\d+ [A-Za-z ]+)")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_REASON: Final = re.compile(r'"(tcp connect error|dns error[^"]*|[^"]*certificate[^"]*)"|(TimedOut)')
_OTHER_RANGE: Final = re.compile(r"Requested \d+\.\.\d+, got \d+\.\.\d+")
_BAD_KEY: Final = re.compile('invalid path: Error parsing Path "(.*?)"', re.DOTALL)
_NO_BUCKET: Final = re.compile("NoSuchBucket|ContainerNotFound|bucket does not exist")
_EXPIRED: Final = re.compile("Expired(Token|Request)|token (has |is )?expired", re.IGNORECASE)
_STALE: Final = "access denied: the session token in the environment has expired: get a new one"
_NO_RIGHT: Final = "access denied: check the credentials in the environment, and what they may read"


class ReplacedError(Exception):
    """An object has another version than the one asked for."""


class _UnfitError(Exception):
    """An answer is not what was asked for."""


class Client(Protocol):
    """A bucket, or another root of keys. Raises FileNotFoundError, PermissionError, ObjectStoreError."""

    def head(self, key: str) -> ObjectStatus:
        """Return the status of an object."""

    def list(self, prefix: str) -> Iterator[KeyPage]:
        """Yield what is directly below a prefix, nothing if there is nothing."""

    def get(self, key: str, status: ObjectStatus, start: int, stop: int) -> bytes:
        """Return a range of an object; raises ReplacedError if its status is another one by now."""


@lru_cache(maxsize=64)
def client_of(scheme: str, root: str) -> Client:
    """Return the client of a bucket or host; raises MissingExtraError."""
    url = f"{scheme}://{root}"
    if scheme in OBSTORE:
        import_library("obstore", "cloud")
        with _named(url):
            return ObstoreClient(url, _open_store(scheme, url))
    import_library("fsspec", "cloud")
    try:
        with _named(url):
            return FsspecClient(url, import_module("fsspec.core").url_to_fs(url, use_listings_cache=False)[0])
    except ImportError as error:
        raise ObjectStoreError(f"{url}: expected the library of this scheme: {error}") from None


def _open_store(scheme: str, url: str) -> Any:
    endpoint = next((os.environ[name] for name in _ENDPOINTS.get(scheme, ()) if os.environ.get(name)), "")
    config: dict[str, Any] = {"endpoint": endpoint} if scheme == "s3" and endpoint else {}
    if scheme == "gs" and endpoint:
        endpoint = endpoint if "://" in endpoint else f"http://{endpoint}"
        config["service_account_key"] = json.dumps({**_NO_ACCOUNT, "gcs_base_url": endpoint})
    if scheme == "s3" and not any(os.environ.get(name) for name in _IDENTITIES):
        config["skip_signature"] = True  # it would look for credentials of this machine, in vain for a minute
    plain = scheme == "http" or endpoint.startswith("http://")
    return import_library("obstore.store", "cloud").from_url(
        url,
        client_options={
            "allow_http": plain,
            "connect_timeout": timedelta(seconds=5),
            "read_timeout": _STALL,
            "timeout": _LONGEST,
        },
        retry_config={
            "max_retries": 6,
            "retry_timeout": _DEADLINE,
            "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=2)},
        },
        **config,
    )


class ObstoreClient:
    """A bucket or host that obstore reads."""

    def __init__(self, url: str, store: Any) -> None:
        self._url, self._store = url, store
        self._obstore: Any = import_library("obstore", "cloud")
        self._is_web = url.startswith("http")  # keys are parts of a URL, and there are no listings

    def head(self, key: str) -> ObjectStatus:
        """Return the status of an object."""
        with _named(f"{self._url}/{key}"):
            return status_of(self._obstore.head(self._store, self._path(key)))

    def list(self, prefix: str) -> Iterator[KeyPage]:
        """Yield what is directly below a prefix, nothing for a web server.

        S3 and GCS list all keys, page by page; most of those in folders are skipped. Below many large folders, and of
        other stores, obstore has the whole answer in memory.
        """
        if self._is_web:
            return
        with _named(f"{self._url}/{prefix}"):
            pages = KeyPages(self._obstore, self._store, prefix)
            if self._url.startswith(_STREAMED):
                yield from pages.stream()
            if not pages.is_complete:
                found = self._obstore.list_with_delimiter(self._store, prefix)
                yield pages.rest(found["common_prefixes"], found["objects"])

    def get(self, key: str, status: ObjectStatus, start: int, stop: int) -> bytes:
        """Return a range of an object; what does not fit the request is asked for again."""
        where = f"{self._url}/{key}"
        for number in range(_TRIES):
            if number:
                time.sleep(_PAUSE * 2 ** (number - 1))
            try:
                return self._get_once(where, key, status, (start, stop))
            except _UnfitError as error:
                found = str(error)
        raise ObjectStoreError(f"{where}: expected the bytes {start} to {stop}, found in {_TRIES} tries: {found}")

    def _get_once(self, where: str, key: str, status: ObjectStatus, wanted: tuple[int, int]) -> bytes:
        options: dict[str, Any] = {"range": wanted}
        if status.version.startswith('"'):  # a weak one does not promise the same bytes
            options["if_match"] = status.version
        with _named(where):
            try:
                answer = self._obstore.get(self._store, self._path(key), options=options)
                data = bytes(answer.bytes())
            except self._obstore.exceptions.PreconditionError:
                raise ReplacedError from None
            except self._obstore.exceptions.GenericError as error:
                if (unfit := _OTHER_RANGE.search(str(error))) is None:
                    raise
                raise _UnfitError(unfit[0]) from None
        if status_of(answer.meta)[:2] != status[:2]:
            raise ReplacedError
        if self._is_web and answer.attributes.get("Content-Encoding"):
            raise _UnfitError("compressed data")
        if (answer.range, len(data)) != (wanted, wanted[1] - wanted[0]):
            raise _UnfitError(f"{len(data)} bytes of the range {answer.range}")
        return data

    def _path(self, key: str) -> str:
        return unquote(key) if self._is_web else key


class FsspecClient:
    """A root of keys that a file system of fsspec reads."""

    def __init__(self, url: str, files: Any) -> None:
        self._url, self._files = url, files

    def head(self, key: str) -> ObjectStatus:
        """Return the status of an object."""
        where = f"{self._url}/{key}"
        with _named(where):
            info = self._files.info(where)
        if info["type"] == "directory":
            raise FileNotFoundError(errno.ENOENT, "no such object", where)
        return self._status_of(info)

    def list(self, prefix: str) -> Iterator[KeyPage]:
        """Yield what is directly below a prefix, at once; nothing if there is nothing."""
        where = f"{self._url}/{prefix}"
        try:
            with _named(where):
                infos = self._files.ls(where, detail=True)
        except FileNotFoundError:
            return
        named = [(info["name"].rstrip("/").rpartition("/")[2], info) for info in infos]
        folders = [name for name, info in named if info["type"] == "directory"]
        objects = ((name, self._status_of(info)) for name, info in named if info["type"] != "directory")
        yield KeyPage(folders, sorted(objects))

    def get(self, key: str, status: ObjectStatus, start: int, stop: int) -> bytes:
        """Return a range of an object."""
        where = f"{self._url}/{key}"
        with _named(where):
            data: bytes = self._files.cat_file(where, start=start, end=stop)
        if len(data) != stop - start:
            raise ObjectStoreError(f"{where}: expected the bytes {start} to {stop}, found {len(data)} bytes")
        if self.head(key) != status:
            raise ReplacedError
        return data

    def _status_of(self, info: dict[str, Any]) -> ObjectStatus:
        time_of = info.get("mtime") or info.get("last_modified") or info.get("created") or 0
        modified = int(time_of.timestamp() if isinstance(time_of, datetime) else time_of)
        names = ("ETag", "etag", "blob_id", "oid", "checksum", "md5Hash")
        etag = next((str(info[name]) for name in names if info.get(name)), "")
        return ObjectStatus(info["size"], quote_etag(etag) or str(time_of), modified)


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Raise the errors of a library as those of this project: one line, and nothing of a signed request."""
    try:
        yield
    except (ReplacedError, _UnfitError, ObjectStoreError, ImportError):
        raise
    except FileNotFoundError as error:
        what = "no such bucket" if _NO_BUCKET.search(str(error)) else "no such object"
        raise FileNotFoundError(errno.ENOENT, what, where) from None
    except ValueError as error:
        raise FormatError(f"{where}: expected a key without empty parts, '.' and '..': {error}") from None
    except Exception as error:  # noqa: BLE001  (of whatever library; an interrupt is none)
        raise _translate(error, where) from None


def _translate(error: Exception, where: str) -> OSError | FormatError:
    text = str(error)
    if bad := _BAD_KEY.search(text):
        return FormatError(
            f"{where}: expected keys without empty parts, '..' and line breaks, found {bad[1]!r}: rename it"
        )
    if "Account must be specified" in text:
        return PermissionError(errno.EACCES, "expected the account in AZURE_STORAGE_ACCOUNT_NAME", where)
    status, code, reason = _STATUS.search(text), _CODE.search(text), _REASON.search(text)
    if _NO_BUCKET.search(text):
        return FileNotFoundError(errno.ENOENT, "no such bucket", where)
    session = bool(os.environ.get("AWS_SESSION_TOKEN")) and status and status[1][:3] == "400"  # HEAD gives no reason
    if _EXPIRED.search(text) or (session and not code):
        return PermissionError(errno.EACCES, _STALE, where)
    denied = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError") or isinstance(
        error, PermissionError
    )
    if denied or (status and status[1][:3] in ("401", "403")):
        return PermissionError(errno.EACCES, _NO_RIGHT + (f" ({code[1]})" if code else ""), where)
    cause = " ".join(match[1].strip() for match in (status, code) if match)
    if not cause and reason:
        cause = reason[1] or "timed out"
    if not cause:
        cause = without_passwords(text.partition("\n")[0].rpartition(" - ")[2])[:200]
    return ObjectStoreError(f"{where}: expected an answer of the store, found: {cause or type(error).__name__}")
