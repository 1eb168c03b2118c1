package ethtool

import (
	"fmt"
	"slices"
	"time"

	"rdma_events/internal/sys/netlink"
)

const (
	// answerLimit is the longest wait for an answer.
	answerLimit = time.Second
	// genericHeader is sizeof(struct genlmsghdr): command, version, reserved.
	genericHeader = 4
)

// sendRequest sends a request of generic netlink, and returns the body of the answer with its generic
// header.
func sendRequest(c *netlink.Conn, family uint16, command uint8, attributes []byte) (answer []byte, err error) {
	const version = 1
	err = c.Ask(family, 0, append([]byte{command, version, 0, 0}, attributes...), func(body []byte) error {
		answer = slices.Clone(body)
		return nil
	})
	return answer, err
}

// parseAnswer checks the generic header of an answer, and calls f for each attribute.
func parseAnswer(body []byte, command uint8, f func(kind uint16, value []byte) error) error {
	if len(body) < genericHeader || body[0] != command {
		return fmt.Errorf("read answer: no answer to the request in %d bytes", len(body))
	}
	return netlink.Each(body[genericHeader:], f)
}
