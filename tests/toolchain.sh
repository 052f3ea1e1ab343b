#!/usr/bin/env bash
# A machine may have the compiler of rust-toolchain.toml under another name, such as `stable`, and no way to fetch it again.
# Prints that name; prints nothing where rustup finds or fetches the compiler by itself.
set -u
command -v rustup >/dev/null || exit 0
wanted=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$(dirname "$0")/../rust-toolchain.toml")
# Outside of the tree, where no pin makes rustup fetch anything.
cd / || exit 0
names=$(rustup toolchain list 2>/dev/null | sed 's/ .*//')
grep -q "^$wanted\(-\|$\)" <<<"$names" && exit 0
for name in $names; do
    if rustup run "$name" rustc --version 2>/dev/null | grep -qF "rustc $wanted "; then
        echo "$name"
        exit 0
    fi
done
