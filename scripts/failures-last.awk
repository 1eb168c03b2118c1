# Passes on the output of go test -v, and repeats at its end what the failed tests logged. The output of a guest is
# long, and who sees only the end of a run sees no failure in it.
{ print; fflush() }
$1 == "===" { test = $3; next }
$2 == "FAIL:" && $1 == "---" { failed[++n] = $3; next }
/^ *--- (PASS|SKIP): / || /^ *guest\| / { next }
test != "" && length(logged[test]) < 20000 { logged[test] = logged[test] $0 "\n" }
END {
	if (n)
		print "== what failed, and what it logged:"
	for (i = 1; i <= n; i++)
		printf "--- %s\n%s", failed[i], logged[failed[i]]
}
