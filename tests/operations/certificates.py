"""Certificates beyond those of the clusters: other authorities, and new ones to replace old ones with."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "cluster"))
import certs  # noqa: E402  the path above leads to it


def make_authority(directory: Path) -> Path:
    """A new authority in a directory of its own; the path of its certificate."""
    directory.mkdir(parents=True)
    certs.make_authority(directory)
    return directory / "ca.pem"


def make_server(directory: Path, name: str) -> dict:
    """A certificate for 127.0.0.1, signed by the authority in the directory; as `[client]` settings."""
    certs.sign(directory, name, "serverAuth", certs.names_for(["127.0.0.1"]))
    return {"tls_certificate": str(directory / f"{name}.pem"), "tls_key": str(directory / f"{name}.key")}


def make_client(directory: Path, name: str) -> tuple[Path, Path]:
    certs.sign(directory, name, "clientAuth", f"DNS:{name}")
    return directory / f"{name}.pem", directory / f"{name}.key"


def trust(ca: str | Path, certificate: tuple | None = None) -> ssl.SSLContext:
    """What a driver is given: whom to trust and, for mTLS, what to show."""
    context = ssl.create_default_context(cafile=str(ca))
    if certificate:
        context.load_cert_chain(*map(str, certificate))
    return context
