// Package measure defines the measurements. Each has a file with its point, the rule by which two of its points merge,
// and the table of its tags and fields. Lines, documents and dashboards are made from the tables.
package measure
