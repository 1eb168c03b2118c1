package verbs

import "fmt"

// PCILink describes the PCI Express link between the card of a PCI function and the upstream port. The zero PCILink is unknown.
type PCILink struct {
	SpeedGTs     float64 // of a lane, in GT/s
	Width        int     // lanes
	BestSpeedGTs float64 // the best that both ends support
	BestWidth    int
}

// Known reports whether the link's values and what both ends support are known.
func (l PCILink) Known() bool {
	return l.SpeedGTs > 0 && l.Width > 0 && l.BestSpeedGTs > 0 && l.BestWidth > 0
}

// Degraded reports whether the link is slower or narrower than both ends support.
func (l PCILink) Degraded() bool {
	return l.Known() && (l.SpeedGTs < l.BestSpeedGTs || l.Width < l.BestWidth)
}

// String describes the link, for example "PCIe 32 GT/s x16". For a degraded link it adds what both ends support.
func (l PCILink) String() string {
	switch {
	case !l.Known():
		return ""
	case l.Degraded():
		return fmt.Sprintf("PCIe %g GT/s x%d of %g GT/s x%d", l.SpeedGTs, l.Width, l.BestSpeedGTs, l.BestWidth)
	}
	return fmt.Sprintf("PCIe %g GT/s x%d", l.SpeedGTs, l.Width)
}
