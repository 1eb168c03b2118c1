// Package telegraf has Telegraf configurations for installations that are too
// large for one database. docs/how-to/large-clusters.md explains them. In the tests Telegraf
// itself checks them.
package telegraf
