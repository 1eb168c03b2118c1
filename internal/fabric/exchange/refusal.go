package exchange

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"rdma_events/internal/fabric/exchange/proto"
)

// newRefusal returns the status that refuses a call. The detail has the reason for the caller; the message is only for people who inspect
// the traffic.
func newRefusal(why proto.Why) error {
	code, message := codes.InvalidArgument, "this greeting is not understood"
	switch why {
	case proto.Why_WHY_NOT_LISTED:
		code, message = codes.PermissionDenied, "the caller is not in the list"
	case proto.Why_WHY_NAME:
		code, message = codes.PermissionDenied, "the caller's certificate is for another name"
	case proto.Why_WHY_VERSION:
		code, message = codes.FailedPrecondition, "no version in common"
	case proto.Why_WHY_FULL:
		code, message = codes.ResourceExhausted, "too many conversations"
	}
	s, err := grpcstatus.New(code, message).WithDetails(&proto.Refusal{Why: why})
	if err != nil {
		return grpcstatus.Error(codes.Internal, "refused")
	}
	return s.Err()
}

// errRefused is the error of a call that the peer has refused for a reason without a sentinel of its own.
var errRefused = errors.New("the host refuses")

// callError returns the meaning of an error of a call. The returned error contains no text of the peer, because it gets into logs.
func callError(err error) error {
	s := grpcstatus.Convert(err)
	for _, detail := range s.Details() {
		if r, ok := detail.(*proto.Refusal); ok {
			return refusalError(r.GetWhy())
		}
	}
	if s.Code() == codes.DeadlineExceeded {
		return context.DeadlineExceeded // the host has the same deadline and may end the call first
	}
	return fmt.Errorf("the call ended as %s", s.Code())
}

func refusalError(why proto.Why) error {
	switch why {
	case proto.Why_WHY_NOT_LISTED:
		return ErrNotListed
	case proto.Why_WHY_VERSION:
		return ErrVersion
	case proto.Why_WHY_NAME:
		return fmt.Errorf("%w: the own certificate is not for the own name", ErrKey)
	case proto.Why_WHY_FULL:
		return fmt.Errorf("%w: it has too many conversations", errRefused)
	case proto.Why_WHY_GREETING:
		return fmt.Errorf("%w: it does not understand the greeting", errRefused)
	}
	return fmt.Errorf("%w: reason %d", errRefused, int32(why))
}
