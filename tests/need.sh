#!/usr/bin/env bash
# Says in one line each what is missing on this machine, before anything is built. `need.sh drivers` also asks for the
# languages of the driver programs.
set -u
missing=0
say() { echo "missing: $1" >&2; missing=1; }

install() {
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$1"; } >&2
}

# The tests start their own; the package's service is not wanted.
install_redis() {
    install redis-server || return 1
    if [ -d /run/systemd/system ]; then systemctl disable --now redis-server >&2; fi
}

# Cargo itself refuses an older compiler. A newer one builds, but its lints and formatting may differ.
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
if ! command -v cargo >/dev/null; then
    say "cargo $wanted: install Rust (rustup toolchain install $wanted)"
elif ! rustc --version | grep -qF "rustc $wanted "; then
    echo "note: this tree is built with Rust $wanted, and this is $(rustc --version)" >&2
fi
command -v mvn >/dev/null || say "Maven: install the package maven"
command -v python3 >/dev/null || say "Python 3.11: install the packages python3 and python3-venv"
command -v openssl >/dev/null || say "openssl: install the package openssl"
command -v curl >/dev/null || say "curl: install the package curl"
command -v redis-server >/dev/null || install_redis || say "redis-server 6 or newer: install the package redis-server"
faketime=(/usr/lib/*/faketime/libfaketimeMT.so.1)
[ -e "${faketime[0]}" ] || install libfaketime || say "libfaketime: install the package libfaketime"
if [ "${1:-}" = drivers ]; then
    command -v go >/dev/null || say "Go 1.24 or newer: install it from go.dev or your distribution"
    command -v npm >/dev/null || say "Node.js 18 or newer with npm: install the packages nodejs and npm"
fi
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
if ! command -v "$java" >/dev/null; then
    say "a JDK 17: install the package openjdk-17-jdk-headless"
elif ! "$java" -version 2>&1 | grep -q 'version "17'; then
    say "a JDK 17 ($java is another version): install openjdk-17-jdk-headless and set JAVA_HOME to it"
fi
exit $missing
