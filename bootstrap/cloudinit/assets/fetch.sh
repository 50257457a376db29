#!/bin/sh
# fetch SHA256 MODE PATH URLS
# Puts at PATH the file of the first URL that gives it with the right SHA-256. URLS is a file with one URL a
# line, and after it the file with the certificate authority of its server, if that is not one of the machine's
# own. A file that is there already and has the SHA-256 is kept.
set -eu

sha256=$1
mode=$2
path=$3
urls=$4

matches() {
	[ "$(sha256sum <"$1" | cut -d ' ' -f 1)" = "$sha256" ]
}

# A server that stalls this long, in seconds, is given up.
stall=${KOK_FETCH_STALL_TIME:-30}
# How long one URL may take, in seconds, and how large a file may be, in blocks of 512 bytes: 4 GiB.
longest=${KOK_FETCH_LONGEST_TIME:-1800}
ulimit -f 8388608
# How often a URL is tried again after a failure that may pass.
retries=${KOK_FETCH_RETRIES:-3}

# download takes the URL from its input: everybody can read the arguments of a program.
download() {
	curl --fail --silent --show-error --location --globoff --proto '=http,https' \
		--connect-timeout 10 --max-time "$longest" --speed-limit 1024 --speed-time "$stall" \
		--retry "$retries" --retry-connrefused --output "$path.part" --config -
}

# shown is a URL without its credentials, which may be in front of the host and in the query.
shown() {
	printf '%s\n' "$1" | sed -E 's|^([A-Za-z]+://)[^/?#]*@|\1|; s|[?#].*||'
}

if [ -f "$path" ] && matches "$path"; then
	chmod "$mode" "$path"
	exit 0
fi

mkdir -p "$(dirname "$path")"
while read -r url authority; do
	if ! printf 'url = "%s"\n%s' "$url" "${authority:+cacert = \"$authority\"}" | download; then
		echo "$(shown "$url"): cannot be fetched" >&2
	elif ! matches "$path.part"; then
		echo "$(shown "$url"): the SHA-256 is not $sha256" >&2
	else
		chmod "$mode" "$path.part"
		mv -f "$path.part" "$path"
		exit 0
	fi
done <"$urls"
rm -f "$path.part"
echo "no URL gives $path" >&2
exit 1
