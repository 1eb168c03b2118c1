// Package inspect examines this host once and finds facts about its RDMA devices: what the worker and tracer programs
// report, and what files of the host contain. One function finds each fact. The packages doctor, hardware and report
// present the facts.
package inspect
