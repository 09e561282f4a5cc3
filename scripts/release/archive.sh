#!/usr/bin/env bash
# archive.sh TARGET: dist/demask-VERSION-TARGET.tar.gz (.zip on Windows) with program, licence and README, and its SHA-256.
# The program is the one of `cargo build --profile dist --target TARGET`, or of the same without a target.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$1
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name=demask-$version-$target
folder=${CARGO_TARGET_DIR:-target}/$target/dist
if [ ! -d "$folder" ]; then folder=${CARGO_TARGET_DIR:-target}/dist; fi
program=demask
if [ -e "$folder/demask.exe" ]; then program=demask.exe; fi

mkdir -p dist
rm -rf "dist/$name"
mkdir "dist/$name"
cp "$folder/$program" LICENSE README.md "dist/$name"
cd dist
if [ "$program" = demask.exe ]; then
    7z a -bso0 "$name.zip" "$name"
    archive=$name.zip
else
    tar czf "$name.tar.gz" "$name"
    archive=$name.tar.gz
fi
rm -rf "$name"
if command -v sha256sum >/dev/null; then sha256sum "$archive"; else shasum -a 256 "$archive"; fi >"$archive.sha256"
cat "$archive.sha256"
