#!/bin/bash
# Counts the lines of comments and documents with a word that this project does not use (CONTRIBUTING.md, Writing).
#
#   scripts/words.sh [COMMIT]        prints the number of lines
#   scripts/words.sh -l [COMMIT]     prints the lines
set -eu -o pipefail
cd "$(dirname "$0")/.."
list=
if [ "${1:-}" = -l ]; then
	list=1
	shift
fi
words='\b(tells?|told|telling|nobody|somebody|mend(s|ed|ing)?)\b'
found=$(
	git grep -n -i -w -E "$words" "${1:-HEAD}" -- '*.go' '*.c' '*.h' '*.md' ':!scripts/words.sh' |
		sed 's/^[^:]*://' |
		awk -F: '{ file = $1; line = $0; sub(/^[^:]*:[^:]*:/, "", line) }
			file ~ /\.md$/ { print; next }
			line ~ /(^|[ \t])(\/\/|\/\*|\*)/ { print }' || true
)
if [ "$list" ]; then
	echo "$found"
else
	grep -c . <<<"$found" || true
fi
