#!/bin/sh
# Builds programs of other projects from a module of this repository that pins their versions, unless their directory exists
# already: for programs that go install cannot build. The arguments are the directory for the programs, that of the module,
# the linker's flags, and for each program its name and package, as in etcd=go.etcd.io/etcd/server/v3. Two checkouts may
# build into the same cache at the same time.
set -eu
out=$1 module=$2 flags=$3
shift 3
[ ! -e "$out" ] || exit 0
echo "building the programs of $module into $out" >&2
mkdir -p "${out%/*}"
new=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf "$new"' EXIT
for program; do
	go -C "$module" build -trimpath -ldflags "-s -w $flags" -o "$new/${program%%=*}" "${program#*=}"
done
chmod 755 "$new"
mv -T "$new" "$out" 2>/dev/null || [ -e "$out" ]
