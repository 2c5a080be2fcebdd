"""Folders of a store are listed a page at a time, in columns, and hold what the store says is in them."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from urllib.request import Request, urlopen

import obstore
import pytest
from object_stores import BUCKET
from obstore.store import MemoryStore, S3Store

from wshard.core.chunks.files import walk
from wshard.core.episode.natural_order import sort_naturally
from wshard.core.files import key_pages, objects
from wshard.core.files.listing import KeyPage, Listing, ObjectStatus
from wshard.core.files.objects import forget
from wshard.core.files.schemes import place_of
from wshard.errors import ObjectStoreError

FOLDERS = ("", "", "x/", "x-1/", "x/y/", "x0/", "ü/", "z/")


@pytest.fixture
def tree(s3):
    """Return a store, and the name of a folder of some 60 keys in it, with folders as consoles make them."""
    store, random = S3Store(BUCKET, endpoint=s3, skip_signature=True, client_options={"allow_http": True}), Random(0)
    for _ in range(60):
        name = random.choice(FOLDERS) + random.choice("xyz") + random.choice(["", "-", "0", " "])
        obstore.put(store, f"tree/{name}{random.randrange(30)}.wshard", b"" if random.random() < 0.1 else b"data")
    for marker in ("marker/", "x/", "x/empty/"):
        urlopen(Request(f"{s3}/{BUCKET}/tree/{marker}", method="PUT", data=b"")).close()  # noqa: S310
    return store, "tree"


@pytest.mark.parametrize("page", [3, 10, 1000])
def test_a_folder_lists_what_the_store_says_is_in_it(tree, page, monkeypatch):
    store, root = tree
    monkeypatch.setattr(key_pages, "_PAGE", page)
    for key in (root, f"{root}/x"):
        forget()
        said = obstore.list_with_delimiter(store, key)
        folders = {path.rpartition("/")[2] for path in said["common_prefixes"]}
        files = {meta["path"].rpartition("/")[2]: meta for meta in said["objects"] if meta["path"] != key}
        listing = place_of(f"s3://{BUCKET}/{key}").listing()
        assert (sorted(listing.folders), [*listing]) == (sorted(folders), sorted(files))
        sizes = {name: listing.status(listing.find(name)).size for name in files}
        assert sizes == {name: meta["size"] for name, meta in files.items()}
        assert listing.find("none") is None


def test_files_are_walked_in_natural_order_with_their_status(tree):
    _, root = tree
    for uri, _, names in walk(f"s3://{BUCKET}/{root}", {}):
        assert [*names] == sort_naturally(names)
        for number, name in enumerate(names):
            assert names.status(number)[:1] == place_of(f"{uri}/{name}").status()[:1]
            assert names.status(number).mtime_ns == place_of(f"{uri}/{name}").status().mtime_ns


def test_a_large_listing_is_forgotten(tree, monkeypatch):
    _, root = tree
    monkeypatch.setattr(objects, "_MOST_LISTED", 5)
    place = place_of(f"s3://{BUCKET}/{root}")
    assert len(place.listing()) > 5
    assert place.uri not in objects._LISTED
    assert place.is_dir()


def test_pages_are_read_as_they_are_needed_and_their_errors_come_again():
    def pages():
        yield KeyPage([], [])
        yield KeyPage(["folder"], [("a", ObjectStatus(1, '"etag"', 2)), ("b", None)])
        yield KeyPage([], [("ü", ObjectStatus(3, "etag", 4))])
        raise ObjectStoreError("no answer")

    listing = Listing(pages())
    assert (listing.is_empty, len(listing), listing.read(1)) == (False, 2, False)
    assert (listing.status(0), listing.status(1)) == (ObjectStatus(1, '"etag"', 2), None)
    for _ in range(2):
        with pytest.raises(ObjectStoreError, match="no answer"):
            listing.read()
    assert ([*listing], listing.folders, listing.is_complete) == (["a", "b", "ü"], ["folder"], False)


def test_a_listing_that_is_left_early_ends_in_silence_when_python_does():
    store, library = MemoryStore(), SimpleNamespace(**vars(obstore))
    obstore.put(store, "one", b"data")
    pages = key_pages.KeyPages(library, store, "").stream()
    next(pages)
    vars(library).clear()  # as of a module, at the end
    pages.close()
