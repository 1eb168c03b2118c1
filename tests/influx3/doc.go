// Package influx3 checks InfluxQL against the documentation of InfluxDB 3 Core and Enterprise: which statements, functions and
// clauses their InfluxQL supports. It runs no InfluxDB 3, and knows only what that documentation says.
//
// The tables are of the files below content/shared/influxql-v3-reference in the repository influxdata/docs-v2, which are the text of
// the pages of both products: feature-support.md of its commit e46349188ac5, and of the other pages 0dc625ee4774 (_index.md),
// 111faf9bca22 (select.md, where.md, math-operators.md, functions/aggregates.md), 48c46580d0ee (group-by.md), 512284798179 (subqueries.md),
// b498878bb111 (show.md) and 6cc07627db41 (functions/transformations.md). The rules of SHOW statements are also of
// content/shared/influxdb3-query-guides/influxql/explore-schema.md (b498878bb111), and one of SELECT is of troubleshoot.md there (0ac2ca0bbe4a).
//
// A query that the tables allow may still fail: the checker does not look at the types of fields, at the number and kind of a
// function's arguments, at casts, or at how several subqueries after FROM are combined.
package influx3
