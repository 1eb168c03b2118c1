// Package timeline turns points into records of what happened. A record can be written as a
// line for people, or as a JSON object for programs and for the recorder. `rdma-events watch`
// shows these records live, and `rdma-events events` reads the same records later.
package timeline
