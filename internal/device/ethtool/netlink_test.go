package ethtool

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// linkBody builds the body of an answer about the link of an interface eth0.
func linkBody(attributes ...[]byte) []byte {
	header := netlink.Attribute(nil, unix.ETHTOOL_A_HEADER_DEV_NAME, netlink.Text("eth0"))
	body := netlink.Attribute([]byte{unix.ETHTOOL_MSG_LINKSTATE_GET_REPLY, 1, 0, 0}, unix.ETHTOOL_A_LINKSTATE_HEADER|unix.NLA_F_NESTED, header)
	for _, a := range attributes {
		body = append(body, a...)
	}
	return body
}

func newAttr(kind uint16, value ...byte) []byte { return netlink.Attribute(nil, kind, value) }

func TestLinkIsWhatTheAnswerSays(t *testing.T) {
	const link, state, substate = unix.ETHTOOL_A_LINKSTATE_LINK, unix.ETHTOOL_A_LINKSTATE_EXT_STATE, unix.ETHTOOL_A_LINKSTATE_EXT_SUBSTATE
	for name, c := range map[string]struct {
		body []byte
		want Link
	}{
		"a link":                   {linkBody(newAttr(link, 1)), Link{Up: true, HasUp: true}},
		"no link, no reason":       {linkBody(newAttr(link, 0)), Link{HasUp: true}},
		"nothing":                  {linkBody(), Link{}},
		"no cable":                 {linkBody(newAttr(link, 0), newAttr(state, 4)), Link{HasUp: true, ExtState: "no_cable"}},
		"the first state":          {linkBody(newAttr(link, 0), newAttr(state, 0)), Link{HasUp: true, ExtState: "autoneg"}},
		"the last state, and more": {linkBody(newAttr(state, 10), newAttr(substate, 1)), Link{ExtState: "module", ExtSubstate: "cmis_not_ready"}},
		"more in front":            {linkBody(newAttr(substate, 2), newAttr(state, 3)), Link{ExtState: "bad_signal_integrity", ExtSubstate: "unsupported_rate"}},
		"a newer state":            {linkBody(newAttr(state, 11), newAttr(substate, 2)), Link{ExtState: "unknown_11", ExtSubstate: "unknown_2"}},
		"a newer substate":         {linkBody(newAttr(state, 4), newAttr(substate, 1)), Link{ExtState: "no_cable", ExtSubstate: "unknown_1"}},
		"a substate alone":         {linkBody(newAttr(link, 0), newAttr(substate, 1)), Link{HasUp: true}},
		"empty values":             {linkBody(newAttr(link), newAttr(state)), Link{}},
		"unknown attributes":       {linkBody(newAttr(99, 1, 2, 3), newAttr(link, 1), newAttr(98)), Link{Up: true, HasUp: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseLink(c.body)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestStatesHaveTheWordsOfTheHeader(t *testing.T) {
	for n, want := range map[uint8]string{
		unix.ETHTOOL_LINK_EXT_STATE_AUTONEG: "autoneg", unix.ETHTOOL_LINK_EXT_STATE_LINK_TRAINING_FAILURE: "link_training_failure",
		unix.ETHTOOL_LINK_EXT_STATE_LINK_LOGICAL_MISMATCH: "link_logical_mismatch", unix.ETHTOOL_LINK_EXT_STATE_BAD_SIGNAL_INTEGRITY: "bad_signal_integrity",
		unix.ETHTOOL_LINK_EXT_STATE_NO_CABLE: "no_cable", unix.ETHTOOL_LINK_EXT_STATE_CABLE_ISSUE: "cable_issue",
		unix.ETHTOOL_LINK_EXT_STATE_EEPROM_ISSUE: "eeprom_issue", unix.ETHTOOL_LINK_EXT_STATE_CALIBRATION_FAILURE: "calibration_failure",
		unix.ETHTOOL_LINK_EXT_STATE_POWER_BUDGET_EXCEEDED: "power_budget_exceeded", unix.ETHTOOL_LINK_EXT_STATE_OVERHEAT: "overheat",
	} {
		require.Equal(t, want, extState(n))
	}
	require.Equal(t, "no_partner_detected", extSubstate(unix.ETHTOOL_LINK_EXT_STATE_AUTONEG, unix.ETHTOOL_LINK_EXT_SUBSTATE_AN_NO_PARTNER_DETECTED))
	require.Equal(t, "no_hcd", extSubstate(unix.ETHTOOL_LINK_EXT_STATE_AUTONEG, unix.ETHTOOL_LINK_EXT_SUBSTATE_AN_NO_HCD))
	require.Equal(t, "remote_fault", extSubstate(unix.ETHTOOL_LINK_EXT_STATE_LINK_TRAINING_FAILURE, unix.ETHTOOL_LINK_EXT_SUBSTATE_LT_REMOTE_FAULT))
	require.Equal(t, "rs_fec_is_not_locked",
		extSubstate(unix.ETHTOOL_LINK_EXT_STATE_LINK_LOGICAL_MISMATCH, unix.ETHTOOL_LINK_EXT_SUBSTATE_LLM_RS_FEC_IS_NOT_LOCKED))
	require.Equal(t, "unsupported_rate", extSubstate(unix.ETHTOOL_LINK_EXT_STATE_BAD_SIGNAL_INTEGRITY, unix.ETHTOOL_LINK_EXT_SUBSTATE_BSI_UNSUPPORTED_RATE))
	require.Equal(t, "cable_test_failure", extSubstate(unix.ETHTOOL_LINK_EXT_STATE_CABLE_ISSUE, unix.ETHTOOL_LINK_EXT_SUBSTATE_CI_CABLE_TEST_FAILURE))
	require.Equal(t, "unknown_0", extSubstate(unix.ETHTOOL_LINK_EXT_STATE_AUTONEG, 0))
}

func TestRefusalsAreTheirErrno(t *testing.T) {
	for errno, want := range map[unix.Errno]error{
		unix.ENODEV: ErrNoInterface, unix.EOPNOTSUPP: ErrUnsupported, unix.EAFNOSUPPORT: ErrUnsupported,
		unix.EPERM: ErrPermission, unix.EACCES: ErrPermission,
	} {
		err := wrapErrno(fmt.Errorf("ask: %w", errno))
		require.ErrorIs(t, err, errno)
		for _, sentinel := range []error{ErrNoInterface, ErrUnsupported, ErrPermission} {
			require.Equal(t, errors.Is(want, sentinel), errors.Is(err, sentinel), "%v", err)
		}
	}
}

func TestDamagedAnswersAreErrors(t *testing.T) {
	whole := linkBody(newAttr(unix.ETHTOOL_A_LINKSTATE_LINK, 1), newAttr(unix.ETHTOOL_A_LINKSTATE_EXT_STATE, 4))
	link, state := len(linkBody())+5, len(linkBody())+13 // where the values end, before their padding
	for n := range len(whole) {
		l, err := parseLink(whole[:n])
		if err != nil {
			require.Zero(t, l, "nothing of a damaged answer is used")
			continue
		}
		require.Equal(t, n >= link, l.Up, "%d bytes", n)
		require.Equal(t, n >= state, l.ExtState == "no_cable", "%d bytes", n)
	}
	_, err := parseLink(whole[:state-1])
	require.ErrorContains(t, err, "an attribute of 5 bytes in 4")
	_, err = parseLink(nil)
	require.ErrorContains(t, err, "no answer", "the kernel only acknowledges")
	_, err = parseLink([]byte{unix.ETHTOOL_MSG_LINKSTATE_GET_REPLY + 1, 1, 0, 0})
	require.Error(t, err, "the answer to another command")
	_, err = parseFamily([]byte{unix.CTRL_CMD_NEWFAMILY, 2, 0, 0})
	require.Error(t, err, "no number")
}

func FuzzAnswersAreReadOrRefused(f *testing.F) {
	f.Add(linkBody(newAttr(unix.ETHTOOL_A_LINKSTATE_LINK, 0), newAttr(unix.ETHTOOL_A_LINKSTATE_EXT_STATE, 4)))
	f.Add(linkBody(newAttr(unix.ETHTOOL_A_LINKSTATE_EXT_STATE, 0), newAttr(unix.ETHTOOL_A_LINKSTATE_EXT_SUBSTATE, 1)))
	f.Add(netlink.Attribute([]byte{unix.CTRL_CMD_NEWFAMILY, 2, 0, 0}, unix.CTRL_ATTR_FAMILY_ID, []byte{0x15, 0}))
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := parseLink(body)
		if err != nil {
			require.Zero(t, l)
		}
		require.False(t, l.Up && !l.HasUp)
		require.False(t, l.ExtSubstate != "" && l.ExtState == "")
		if family, err := parseFamily(body); err == nil {
			require.GreaterOrEqual(t, family, uint16(unix.NLMSG_MIN_TYPE))
			require.Zero(t, l, "one body is not the answer to both commands")
		}
	})
}
