package doctor

const releasedCheck = "released"

// checkReleased reports the devices that are released (`rdma-events release`). Other checks ignore them.
func checkReleased(x *examination) []Result { return x.released }

// releasedUntil returns until when a device is released, as in "released until 12:00", or "" if it is not released.
func (x *examination) releasedUntil(name string) string {
	if x.Released == nil {
		return ""
	}
	return x.Released(name)
}
