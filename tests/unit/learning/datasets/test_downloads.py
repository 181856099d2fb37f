from __future__ import annotations

import gzip
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError, DataError
from roambench.learning.datasets.downloads import Download, fetch

CONTENT = bytes(range(256)) * 40  # 10,240 bytes
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()


@pytest.fixture
def site() -> Iterator[str]:
    """A real web server on loopback: /whole, /short (ends early), /chunked-short (hangs up in a chunk)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.close_connection = True
            if self.path not in ("/whole", "/short", "/chunked-short", "/packed"):
                self.send_error(404)
                return
            self.send_response(200)
            if self.path == "/chunked-short":
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"2800\r\n" + CONTENT[:100])
                return
            body = gzip.compress(CONTENT) if self.path == "/packed" else CONTENT
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:1000] if self.path == "/short" else body)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("algorithm", "digest"), [("sha256", SHA256), ("md5", MD5)])
def test_a_file_with_the_published_checksum_gets_its_name(
    site: str, tmp_path: Path, algorithm: str, digest: str
):
    place = tmp_path / "made" / "when needed"
    path = fetch(Download("data.bin", f"{site}/whole", algorithm, digest, 10_240), place)
    assert path == place / "data.bin"
    assert path.read_bytes() == CONTENT
    assert list(place.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_checksum_of_the_content_is_taken_after_unpacking(site: str, tmp_path: Path):
    path = fetch(Download("data.gz", f"{site}/packed", "sha256", SHA256, 10_240, of_content=True), tmp_path)
    assert gzip.decompress(path.read_bytes()) == CONTENT
    with pytest.raises(DataError, match=r"SHA-256 .* not kept"):
        fetch(Download("data.gz", f"{site}/packed", "sha256", SHA256, 10_240), tmp_path / "other")


@pytest.mark.parametrize(
    ("path", "algorithm", "digest", "max_bytes", "message"),
    [
        ("/whole", "md5", "0" * 32, 10_240, rf"/whole: MD5 {MD5[:12]}, expected 000000000000; not kept"),
        ("/whole", "sha256", MD5, 10_240, f"SHA-256 {SHA256[:12]}, expected {MD5[:12]}; not kept"),
        ("/whole", "sha256", SHA256, 10_239, "/whole: more than the 10239 bytes it has; not kept"),
        ("/short", "sha256", SHA256, 10_240, "cut off after 1000 of 10240 bytes|1000 bytes read"),
        ("/chunked-short", "sha256", SHA256, 10_240, "cannot be downloaded .*IncompleteRead"),
        ("/nowhere", "sha256", SHA256, 10_240, "/nowhere: cannot be downloaded .*404"),
    ],
)
def test_what_is_wrong_cut_off_or_too_long_is_named_and_nothing_is_left(
    site: str, tmp_path: Path, path: str, algorithm: str, digest: str, max_bytes: int, message: str
):
    with pytest.raises(DataError, match=message):
        fetch(Download("data.bin", site + path, algorithm, digest, max_bytes), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_failed_download_does_not_touch_the_file_that_was_there(site: str, tmp_path: Path):
    (tmp_path / "data.bin").write_bytes(b"old")
    with pytest.raises(DataError):
        fetch(Download("data.bin", f"{site}/short", "sha256", SHA256, 10_240), tmp_path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_without_a_known_checksum_nothing_is_asked_for(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"no checksum is known, so it is not downloaded; put it into"):
        fetch(Download("data.bin", "http://127.0.0.1:1/data.bin", "sha256", "", 10), tmp_path)
    assert not list(tmp_path.iterdir())


def test_only_web_addresses_are_opened(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    with pytest.raises(DataError, match="expected an http or https address"):
        fetch(Download("data.bin", f"file://{secret}", "sha256", SHA256, 10_240), tmp_path)


def test_an_unreachable_server_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:1/x: cannot be downloaded"):
        fetch(Download("x", "http://127.0.0.1:1/x", "sha256", SHA256, 10), tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"file/x: cannot be written"):
        fetch(Download("x", "http://127.0.0.1:1/x", "sha256", SHA256, 10), tmp_path / "file")
