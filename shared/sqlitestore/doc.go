// Package sqlitestore is the platform in one SQLite file: items, queues and
// blobs for a single process that owns a data folder.
//
// Every write is durable when the call returns. Calls that arrive together
// share one transaction and so one fsync (writer.go). Queue messages are durable
// rows too, but who may have which message when is kept in memory only (index.go):
// the process holds the folder's lock, so whatever was in flight when an earlier
// process died is free, and is handed out again as soon as the store is opened.
//
// Start reading at Open, then write in writer.go: all changes pass through it.
package sqlitestore
