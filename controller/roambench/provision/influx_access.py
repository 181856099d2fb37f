"""A write-only token for the boards: made at the InfluxDB with an administrator's token that stays here.

InfluxDB 2: an authorization that may write one bucket. InfluxDB 1.x: a user with WRITE on one database, whose
token is `user:password`. Neither may read, delete or create anything.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, Final
from urllib.parse import urlencode

import urllib3

from roambench.contract.errors import LinkError
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.proxies import pool_to

_CONNECT_S: Final = 5.0
_MESSAGE_CHARACTERS: Final = 300


def write_only_statements(database: str, user: str, password: str) -> list[str]:
    """InfluxQL that makes a user who may write `database` and do nothing else."""
    return [
        f"CREATE USER {_name(user)} WITH PASSWORD '{_text(password)}'",
        f"GRANT WRITE ON {_name(database)} TO {_name(user)}",
    ]


def write_only_authorization(org_id: str, bucket_id: str, description: str) -> dict[str, Any]:
    """The body of `POST /api/v2/authorizations` for one bucket."""
    resource = {"type": "buckets", "id": bucket_id, "orgID": org_id}
    return {
        "orgID": org_id,
        "description": description,
        "permissions": [{"action": "write", "resource": resource}],
    }


def make_write_only(settings: InfluxSettings, admin_token: str, name: str) -> str:
    """Make it at the server and return the token; `name` is what the server's own lists call it.

    `admin_token` (1.x: user:password) may create users or authorizations. LinkError tells what the server
    said; the token is never in it.
    """
    timeout = urllib3.Timeout(_CONNECT_S, settings.timeout_s)
    with pool_to(settings.url, retries=False, timeout=timeout) as pool:
        server = _Server(pool, settings.url.rstrip("/"), admin_token)
        try:
            return _made(server, settings, name)
        except (KeyError, TypeError, ValueError, AttributeError):  # a web server of another kind
            raise LinkError(f"{settings.url}: no answer of an InfluxDB ({settings.api})") from None


def _made(server: _Server, settings: InfluxSettings, name: str) -> str:
    if settings.api == "v1":
        password = secrets.token_urlsafe(24)
        database = settings.bucket.partition("/")[0]
        for statement in write_only_statements(database, name, password):
            server.query(statement)
        return f"{name}:{password}"
    org_id = server.one("orgs", org=settings.org)
    bucket_id = server.one("buckets", orgID=org_id, name=settings.bucket)
    made = server.ask("POST", "/api/v2/authorizations", write_only_authorization(org_id, bucket_id, name))
    return str(made["token"])


class _Server:
    def __init__(self, pool: urllib3.PoolManager, url: str, token: str) -> None:
        self._pool, self._url, self._token = pool, url, token

    def one(self, kind: str, **parameters: str) -> str:
        """The id of the organisation or bucket that the parameters name."""
        found = self.ask("GET", f"/api/v2/{kind}?{urlencode(parameters)}").get(kind, [])
        if len(found) != 1:
            raise LinkError(f"{self._url}: {len(found)} {kind} for {parameters}, expected one")
        return str(found[0]["id"])

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self._send(
            method,
            path,
            json.dumps(body).encode() if body is not None else None,
            {"Authorization": f"Token {self._token}", "Content-Type": "application/json"},
        )
        return dict(json.loads(answer))

    def query(self, statement: str) -> None:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if self._token:
            headers |= urllib3.make_headers(basic_auth=self._token)
        answer = self._send("POST", "/query", urlencode({"q": statement}).encode(), headers)
        errors = [result["error"] for result in json.loads(answer)["results"] if "error" in result]
        if errors:
            raise LinkError(f"{self._url}: {self._clean(errors[0])}")

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        try:
            # Not to another host by a redirect: the administrator's token would go with it.
            reply = self._pool.request(method, self._url + path, body=body, headers=headers, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            raise LinkError(self._clean(f"{self._url}: {error}")) from None
        if not 200 <= reply.status < 300:
            raise LinkError(
                self._clean(f"{self._url}: {reply.status} {reply.data.decode('utf-8', 'replace')}")
            )
        return reply.data

    def _clean(self, text: str) -> str:
        if self._token:
            text = text.replace(self._token, "***")
        return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_MESSAGE_CHARACTERS]


def _name(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
