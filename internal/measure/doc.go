// Package measure holds the measurements. Each has a file with its point, the rule by which two of its points merge, and
// the table of its tags and fields, from which lines, documents and dashboards are made.
package measure
