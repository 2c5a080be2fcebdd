"""The contract of every index, kept by the DeepData index: on the fake server, and on a live one (DEEPDATA_URL)."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from deepdata_fake import Fake
from deepdata_replay import serving

from bridge.deepdata.settings import Settings, read_settings
from bridge.index.deepdata import DeepDataIndex
from bridge.testing import IndexContract


class _OnAServer(IndexContract):
    exact = False
    filters = 50
    few = 0  # so that every filter goes to the server
    batch = 250
    token = None

    @pytest.fixture(autouse=True)
    def _server(self):
        self.opened = []
        with serving(Fake(auth=f"token:{self.token}" if self.token else "open").respond) as server:
            self.settings = Settings(server.url, token=self.token, rpm=0, batch=self.batch)
            yield
            for index in self.opened:
                index.close()

    def open_index(self, catalog, folder):
        self.opened.append(DeepDataIndex(catalog, folder, self.settings, few=self.few))
        return self.opened[-1]


class TestDeepDataIndex(_OnAServer):
    filters = 200


class TestDeepDataIndexThatAnswersNarrowFiltersItself(_OnAServer):
    few = 64


class TestDeepDataIndexInSmallBatches(_OnAServer):
    batch = 7


class TestDeepDataIndexOfATenant(_OnAServer):
    token = "t"  # noqa: S105  (invented)


@pytest.mark.skipif("DEEPDATA_URL" not in os.environ, reason="no live server: DEEPDATA_URL is not set")
class TestDeepDataIndexLive(_OnAServer):
    @pytest.fixture(autouse=True)
    def _server(self):
        self.opened = []
        self.settings = replace(read_settings(os.environ["DEEPDATA_URL"]), rpm=0)
        yield
        for index in self.opened:
            index.close()
