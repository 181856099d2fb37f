"""The proxy on the way to an InfluxDB: http_proxy, https_proxy, all_proxy and no_proxy as curl has them."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.util import Url, make_headers, parse_url

from roambench.contract.addresses import host_port
from roambench.contract.errors import ConfigError
from roambench.spool.influx_settings import host_beyond


def proxy_to(url: str) -> Url | None:
    """The proxy by which `url` is reached; None without one, and always for this machine.

    Raises ConfigError for a proxy that is none of HTTP.
    """
    parts, proxies = urlsplit(url), getproxies()
    text = proxies.get(parts.scheme) or proxies.get("all")
    if not text or not host_beyond(url) or _bypassed(parts.hostname or "", parts.port, proxies.get("no", "")):
        return None
    with suppress(urllib3.exceptions.LocationParseError):
        proxy = parse_url(text if "://" in text else f"http://{text}")
        if proxy.scheme == "http" and proxy.host:
            return proxy
    raise ConfigError(
        [f"{url}: expected a proxy as http://HOST:PORT in the environment, or none by no_proxy"]
    )


def authorization(proxy: Url) -> dict[str, str]:
    """The header that carries the user and password of the proxy's address, if it has them."""
    return make_headers(proxy_basic_auth=unquote(proxy.auth)) if proxy.auth else {}


def pool_to(url: str, **settings: Any) -> urllib3.PoolManager:
    """Connections to `url`, by its proxy if there is one. Raises ConfigError as `proxy_to` does."""
    proxy = proxy_to(url)
    if proxy is None:
        return urllib3.PoolManager(**settings)
    bare = proxy._replace(auth=None).url
    return urllib3.ProxyManager(bare, proxy_headers=authorization(proxy), **settings)


def _bypassed(host: str, port: int | None, no_proxy: str) -> bool:
    """Python knows names and ports of `no_proxy`; networks as 10.0.0.0/8 and IPv6 addresses are as curl's."""
    where = host_port(host, port) if port else host
    if proxy_bypass(where):
        return True
    with suppress(ValueError):
        address = ip_address(host)
        for entry in no_proxy.split(","):
            with suppress(ValueError):
                if address in ip_network(entry.strip().strip("[]"), strict=False):
                    return True
    return False
