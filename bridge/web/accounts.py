"""Authentication: accounts from a file of hashed tokens, one-time links, browser sessions."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from wshard.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Role = Literal["reader", "editor"]

_IDLE_S: Final = 12 * 3600.0
_MAX_SESSIONS: Final = 1000
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Account:
    """A person: the name recorded in annotations and the audit log, and the role."""

    name: str
    role: Role = "editor"


@dataclass
class BrowserSession:
    """A browser that has signed in; csrf is what its pages send with every change."""

    account: Account
    csrf: str
    seen: float


def hash_token(token: str) -> str:
    """Return the SHA-256 stored in files of accounts; tokens are random, so a salted slow hash is not needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(32)


def read_accounts(path: Path) -> dict[str, Account]:
    """Return accounts by the hash of their token, from lines `NAME ROLE SHA256`; # begins a comment.

    Raises RequestError for an invalid line, with its number, and for a file without accounts; OSError.
    """
    accounts: dict[str, Account] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(_MAX_BYTES)
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 3 or words[1] not in ("reader", "editor") or not _is_hash(words[2]):
            expected = "expected NAME, reader or editor, and the SHA-256 of a token (`wshard serve --new-token`)"
            raise RequestError(f"{path}, line {number}: {expected}")
        accounts[words[2].lower()] = Account(words[0], "reader" if words[1] == "reader" else "editor")
    if not accounts:
        raise RequestError(f"{path}: expected at least one account, NAME ROLE SHA256, found none")
    return accounts


def _is_hash(text: str) -> bool:
    return len(text) == 64 and all(sign in "0123456789abcdefABCDEF" for sign in text)


class SignIns:
    """Browser sessions, and the tokens that are accepted for new ones.

    accounts: by the hash of their token. Without any, one-time links sign in the account `owner`.
    """

    def __init__(self, accounts: dict[str, Account] | None = None, *, owner: Account = Account("")) -> None:
        self._accounts = accounts or {}
        self._owner = owner
        self._links: set[str] = set()
        self._sessions: dict[str, BrowserSession] = {}

    @property
    def by_token(self) -> bool:
        """Whether people sign in by tokens of their own."""
        return bool(self._accounts)

    @property
    def count(self) -> int:
        """Number of signed-in browsers."""
        return len(self._sessions)

    def new_link_token(self) -> str:
        """Return a token that signs in the owner once."""
        token = new_token()
        self._links.add(hash_token(token))
        return token

    def account_of(self, token: str) -> Account | None:
        """Return the account of a token, as programs send it with every request; None if it is unknown."""
        given = hash_token(token)
        return next((account for digest, account in self._accounts.items() if hmac.compare_digest(digest, given)), None)

    def sign_in(self, token: str) -> str | None:
        """Return the key of a new session for a one-time link, which is used up, or for an account's token."""
        given = hash_token(token)
        link = next((digest for digest in self._links if hmac.compare_digest(digest, given)), None)
        account = self._owner if link is not None else self.account_of(token)
        if account is None:
            return None
        self._links.discard(link or "")
        self._forget_idle()
        key = new_token()
        self._sessions[hash_token(key)] = BrowserSession(account, new_token(), time.monotonic())
        return key

    def sign_out(self, key: str) -> None:
        """End a session."""
        self._sessions.pop(hash_token(key), None)

    def session(self, key: str) -> BrowserSession | None:
        """Return the session of that key, unless it was idle for hours."""
        session = self._sessions.get(hash_token(key))
        now = time.monotonic()
        if session is None or now - session.seen > _IDLE_S:
            return None
        session.seen = now
        return session

    def _forget_idle(self) -> None:
        now = time.monotonic()
        by_age = sorted(self._sessions, key=lambda key: self._sessions[key].seen)
        idle = [key for key in by_age if now - self._sessions[key].seen > _IDLE_S]
        for key in idle or by_age[: max(0, len(by_age) - _MAX_SESSIONS + 1)]:
            del self._sessions[key]


def allowed_hosts(host: str, port: int, more: Sequence[str] = ()) -> frozenset[str]:
    """Return the values of the Host header that are answered: the server's own names, and `more`."""
    names = {host, *(("127.0.0.1", "localhost", "[::1]") if host in ("127.0.0.1", "localhost", "::1") else ()), *more}
    return frozenset(f"{name}:{port}" for name in names) | frozenset(names if port in (80, 443) else more)
