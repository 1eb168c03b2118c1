// Package measure defines the measurements. Each measurement has a file with its point type, the rule for merging two
// points, and the table of its tags and fields. The tables are the source of the lines, the documents and the dashboards.
package measure
