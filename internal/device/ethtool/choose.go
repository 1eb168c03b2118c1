package ethtool

import (
	"bytes"
	"slices"
)

// subjects lists parts of the names of statistics that explain a drop or a slow device: flow
// control, discarded packets, damage on the wire, congestion notifications. Drivers choose the
// names freely, so the parts are short.
var subjects = [][]byte{
	[]byte("pause"), []byte("discard"), []byte("drop"), []byte("error"), []byte("crc"), []byte("symbol"),
	[]byte("cnp"), []byte("ecn"), []byte("out_of_buffer"),
}

// isWanted reports whether to read a statistic with this name, in lower case. "err" must be a
// word, as in rx_symbol_err_phy, since it is a part of "interrupt".
func isWanted(name []byte) bool {
	if slices.ContainsFunc(subjects, func(s []byte) bool { return bytes.Contains(name, s) }) {
		return true
	}
	for rest := name; ; {
		before, after, found := bytes.Cut(rest, []byte("err"))
		if !found {
			return false
		}
		if !endsInLetter(before) && !beginsWithLetter(bytes.TrimPrefix(after, []byte("s"))) {
			return true
		}
		rest = after
	}
}

func isLetter(c byte) bool           { return 'a' <= c && c <= 'z' }
func beginsWithLetter(s []byte) bool { return len(s) > 0 && isLetter(s[0]) }
func endsInLetter(s []byte) bool     { return len(s) > 0 && isLetter(s[len(s)-1]) }
func notPrintable(c rune) bool       { return c < ' ' || c > '~' }
func isDigit(c byte) bool            { return '0' <= c && c <= '9' }

// choice is a statistic to read.
type choice struct {
	index int
	name  string
}

// perQueueThreshold is the number of names that differ only in digits above which they count as
// one statistic of many queues. Priorities, traffic classes and lanes are at most eight.
const perQueueThreshold = 8

// chooseStatistics returns the statistics to read, and how many further ones are wanted. If there
// are more than maxValues, it leaves out statistics of single queues first: some drivers (bnxt_en)
// list them before the port's statistics, which include the sums of all queues.
func chooseStatistics(names []byte, wanted func(name []byte) bool) (chosen []choice, leftOut int) {
	var found []int
	kinds := map[string]int{}
	for i := range len(names) / nameSize {
		if name := nameAt(names, i); len(name) > 0 && wanted(bytes.ToLower(name)) {
			found = append(found, i)
			kinds[withoutDigits(name)]++
		}
	}
	taken := map[string]bool{}
	for _, queues := range []bool{false, true} {
		for _, i := range found {
			name := nameAt(names, i)
			if queues != (kinds[withoutDigits(name)] > perQueueThreshold) || taken[string(name)] || len(chosen) == maxValues {
				continue
			}
			taken[string(name)] = true
			chosen = append(chosen, choice{i, string(name)})
		}
	}
	return chosen, len(found) - len(chosen)
}

// nameAt returns the name at an index, nil if it is not printable ASCII. The kernel does not
// terminate a name of full length with a zero byte.
func nameAt(names []byte, i int) []byte {
	name, _, _ := bytes.Cut(names[i*nameSize:(i+1)*nameSize], []byte{0})
	if name = bytes.TrimSpace(name); bytes.ContainsFunc(name, notPrintable) {
		return nil
	}
	return name
}

// withoutDigits returns a name without its digits.
func withoutDigits(name []byte) string {
	return string(slices.DeleteFunc(slices.Clone(name), isDigit))
}
