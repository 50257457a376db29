#!/bin/sh
# fetch-installer FETCH DIR PATH RESULT
# Puts at PATH the program kok-software for the architecture of this machine, by the program FETCH. DIR has the files
# ARCHITECTURE.sha256 and ARCHITECTURE.urls for each architecture that there is. When the program cannot be had, RESULT
# says so, in the words of DIR/failed.json, or of DIR/none.json when there is none for this machine.
set -u

fetch=$1
dir=$2
path=$3
result=$4

case $(uname -m) in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) architecture=$(uname -m) ;;
esac

said=failed
if [ ! -f "$dir/$architecture.urls" ]; then
	echo "there is no kok-software for the architecture $architecture" >&2
	said=none
elif /bin/sh "$fetch" "$(cat "$dir/$architecture.sha256")" 0755 "$path" "$dir/$architecture.urls"; then
	exit 0
fi
mkdir -p "$(dirname "$result")"
cp "$dir/$said.json" "$result.part"
mv -f "$result.part" "$result"
exit 1
