// Package proto has the code generated from hello.proto for the conversation
// between hosts. Only package exchange imports it.
package proto

//go:generate protoc --plugin=../../../../build/tools/protoc-gen-go --plugin=../../../../build/tools/protoc-gen-go-grpc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative hello.proto
