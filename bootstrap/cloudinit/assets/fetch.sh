#!/bin/sh
# fetch SHA256 MODE PATH URL...
# Puts at PATH the file of the first URL that gives it with the right SHA-256. A file that is there
# already and has it is kept.
set -eu

sha256=$1
mode=$2
path=$3
shift 3

matches() {
	[ "$(sha256sum <"$1" | cut -d ' ' -f 1)" = "$sha256" ]
}

if [ -f "$path" ] && matches "$path"; then
	chmod "$mode" "$path"
	exit 0
fi

mkdir -p "$(dirname "$path")"
for url in "$@"; do
	if ! curl --fail --silent --show-error --location --globoff --proto '=http,https' \
		--connect-timeout 10 --retry 3 --output "$path.part" --url "$url"; then
		echo "$url: cannot be fetched" >&2
	elif ! matches "$path.part"; then
		echo "$url: the SHA-256 is not $sha256" >&2
	else
		chmod "$mode" "$path.part"
		mv -f "$path.part" "$path"
		exit 0
	fi
done
rm -f "$path.part"
echo "no URL gives $path" >&2
exit 1
