"""The key of a WPA2 network from its passphrase: a card holds the key, which opens that one network."""

from __future__ import annotations

import hashlib


def pre_shared_key(ssid: str, passphrase: str) -> str:
    """64 hexadecimal digits (IEEE 802.11-2020, J.4); a `passphrase` of 64 characters is the key already."""
    if len(passphrase) == 64:
        return passphrase.lower()
    return hashlib.pbkdf2_hmac("sha1", passphrase.encode(), ssid.encode(), 4096, 32).hex()
