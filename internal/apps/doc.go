// Package apps is the host's picture of which application holds which objects of a device, and what events they had. What
// workers and the tracer have seen goes in, points of rdma_app, rdma_app_async, rdma_app_event, rdma_app_hang and
// rdma_tracer come out. It reads nothing itself.
package apps
