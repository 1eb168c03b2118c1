// Package timeline puts what happens to devices into records: lines for people, JSON objects
// for programs and for the recorder. What `rdma-events watch` shows and what `rdma-events
// events` reads later are the same records.
package timeline
