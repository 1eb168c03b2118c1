package ethtool

import "strconv"

// extStates has the names of enum ethtool_link_ext_state, and for each state the names of its
// enum ethtool_link_ext_substate_*, which begins with 1 (include/uapi/linux/ethtool.h).
var extStates = []struct {
	name      string
	substates []string
}{
	{"autoneg", []string{
		"no_partner_detected", "ack_not_received", "next_page_exchange_failed", "no_partner_detected_force_mode",
		"fec_mismatch_during_override", "no_hcd",
	}},
	{"link_training_failure", []string{
		"kr_frame_lock_not_acquired", "kr_link_inhibit_timeout", "kr_link_partner_did_not_set_receiver_ready", "remote_fault",
	}},
	{"link_logical_mismatch", []string{
		"pcs_did_not_acquire_block_lock", "pcs_did_not_acquire_am_lock", "pcs_did_not_get_align_status",
		"fc_fec_is_not_locked", "rs_fec_is_not_locked",
	}},
	{"bad_signal_integrity", []string{
		"large_number_of_physical_errors", "unsupported_rate", "serdes_reference_clock_lost", "serdes_alos",
	}},
	{"no_cable", nil},
	{"cable_issue", []string{"unsupported_cable", "cable_test_failure"}},
	{"eeprom_issue", nil},
	{"calibration_failure", nil},
	{"power_budget_exceeded", nil},
	{"overheat", nil},
	{"module", []string{"cmis_not_ready"}},
}

// extState returns the name of a state, "unknown_<number>" for a state of a newer kernel.
func extState(n uint8) string {
	if int(n) < len(extStates) {
		return extStates[n].name
	}
	return unknownName(n)
}

// extSubstate returns the name of a substate of a state, "unknown_<number>" for a substate of a newer kernel.
func extSubstate(state, n uint8) string {
	if int(state) < len(extStates) && n > 0 && int(n) <= len(extStates[state].substates) {
		return extStates[state].substates[n-1]
	}
	return unknownName(n)
}

func unknownName(n uint8) string { return "unknown_" + strconv.Itoa(int(n)) }
