package doctor

const releasedCheck = "released"

// checkReleased reports the devices that are released (`rdma-events release`), which no other check is about.
func checkReleased(x *examination) []Result { return x.released }

// releasedUntil returns until when a device is released, as in "released until 12:00", "" for one that is not.
func (x *examination) releasedUntil(name string) string {
	if x.Released == nil {
		return ""
	}
	return x.Released(name)
}
