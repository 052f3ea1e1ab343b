#!/usr/bin/env bash
# Makes target/venv with the Python packages of the tests; done in an instant when it is already as asked for.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=tests/requirements.txt
venv=target/venv
# A copy of the list, written last: half an installation or a changed list makes a new start.
installed=$venv/requirements.installed

mkdir -p target
# Test programs may start side by side; the second waits for the first.
exec 9>target/venv.lock
flock 9
cmp -s "$requirements" "$installed" && exit 0

fail() { echo "setup: error: $*" >&2; exit 1; }
python=$(command -v python3) || fail "python3 is not on the PATH: install Python 3.11 (Debian: apt-get install python3 python3-venv)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "$python is $("$python" --version), the tests need 3.11 or later: install it"

echo "setup: installing Python packages into $venv" >&2
"$python" -m venv --clear "$venv" || fail "cannot make a virtual environment: install venv (Debian: apt-get install python3-venv)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$requirements" ||
    fail "pip failed, see above: check the network and run the same command again"
"$venv/bin/python" -c 'import cassandra.cluster, lz4.block, snappy, xxhash' || fail "the packages in $venv do not import, see above"
cp "$requirements" "$installed"
