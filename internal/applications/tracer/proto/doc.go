// Package proto is the generated code of the contract between host and tracer
// (tracer.proto). Only package tracer imports it.
package proto

//go:generate protoc --plugin=../../../../build/tools/protoc-gen-go --plugin=../../../../build/tools/protoc-gen-go-grpc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative tracer.proto
