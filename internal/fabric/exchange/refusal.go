package exchange

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"rdma_events/internal/fabric/exchange/proto"
)

// refusal returns the status that refuses a call. Its message is for those who read the wire; the detail decides.
func refusal(why proto.Why) error {
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

// errRefused is the end of a call that the peer refused for a reason without a sentinel.
var errRefused = errors.New("the host refuses")

// callError returns what the error of a call means. It has no text of the peer: that would get into logs.
func callError(err error) error {
	s := grpcstatus.Convert(err)
	for _, detail := range s.Details() {
		if r, ok := detail.(*proto.Refusal); ok {
			return refused(r.GetWhy())
		}
	}
	if s.Code() == codes.DeadlineExceeded {
		return context.DeadlineExceeded // the host has the deadline too, and may be there first
	}
	return fmt.Errorf("the call ended as %s", s.Code())
}

func refused(why proto.Why) error {
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
