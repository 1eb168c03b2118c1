// Package measure has what is emitted: for each measurement its type, and the table of its tags and fields, out of which
// lines, documents and dashboards are made.
package measure
