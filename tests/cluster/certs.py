"""Makes a throw-away certificate authority and what it signs: the nodes, a client, and the proxy's own listener."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from spec import ClusterError, ClusterSpec

# Protects nothing: these keys live and die with a test cluster.
STORE_PASSWORD = "cassandra"
DAYS = "3650"


def make_certificates(spec: ClusterSpec, java: Path) -> None:
    if not shutil.which("openssl"):
        raise ClusterError("openssl is not on the PATH: install it (Debian: apt-get install openssl)")
    directory = spec.tls_directory
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    make_authority(directory)
    nodes = [spec.address(number) for number in spec.numbers]
    sign(directory, "server", "serverAuth,clientAuth", names_for(nodes))
    sign(directory, "proxy", "serverAuth", names_for(["127.0.0.1"]))
    sign(directory, "client", "clientAuth", "DNS:client")
    for name in ("server", "client"):
        make_keystore(directory, name)
    make_truststore(directory, java)


def describe(spec: ClusterSpec) -> dict | None:
    """The `tls` part of what `up` prints."""
    if not spec.tls:
        return None
    files = {
        "ca": "ca.pem",
        "client_certificate": "client.pem", "client_key": "client.key",
        "proxy_certificate": "proxy.pem", "proxy_key": "proxy.key",
        "truststore": "truststore.p12", "client_keystore": "client.p12",
    }
    paths = {key: str(spec.tls_directory / file) for key, file in files.items()}
    return {**paths, "store_password": STORE_PASSWORD, "mtls": spec.mtls}


def names_for(addresses: list[str]) -> str:
    return ",".join(["DNS:localhost", *(f"IP:{address}" for address in addresses)])


def make_authority(directory: Path) -> None:
    openssl(directory, "req", "-x509", *new_key("ca"), "-out", "ca.pem", "-days", DAYS, "-subj", "/CN=narrows test authority",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")


def sign(directory: Path, name: str, usage: str, alternative_names: str) -> None:
    openssl(directory, "req", "-new", *new_key(name), "-out", f"{name}.csr", "-subj", f"/CN=narrows test {name}")
    extensions = directory / f"{name}.ext"
    # rustls refuses certificates without subjectAltName or with CA:TRUE as an end entity.
    extensions.write_text(
        f"basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
        f"extendedKeyUsage={usage}\nsubjectAltName={alternative_names}\n"
    )
    openssl(directory, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", f"{name}.pem", "-days", DAYS, "-extfile", extensions.name)
    extensions.unlink()
    (directory / f"{name}.csr").unlink()


def new_key(name: str) -> list[str]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]


def make_keystore(directory: Path, name: str) -> None:
    openssl(directory, "pkcs12", "-export", "-name", name, "-in", f"{name}.pem", "-inkey", f"{name}.key",
            "-certfile", "ca.pem", "-out", f"{name}.p12", "-passout", f"pass:{STORE_PASSWORD}")


def make_truststore(directory: Path, java: Path) -> None:
    # Java ignores a certificate in PKCS12 unless it is marked as trusted, which only newer openssl can do.
    run(directory, [str(java.with_name("keytool")), "-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem",
                    "-keystore", "truststore.p12", "-storetype", "PKCS12", "-storepass", STORE_PASSWORD])


def openssl(directory: Path, *arguments: str) -> None:
    run(directory, ["openssl", *arguments])


def run(directory: Path, command: list[str]) -> None:
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)} failed in {directory}: {done.stdout}{done.stderr}".strip())
