package twins

// difference is a panel in which the engines differ, for a reason.
type difference struct {
	panel  string // UID and ID
	reason string
	// allowed removes from an answer what may differ; the rest may not. nil: everything may differ.
	allowed func(*view, answer) answer
}

func differenceOf(panel string) *difference {
	for _, e := range differences() {
		if e.panel == panel {
			return &e
		}
	}
	return nil
}

func differences() []difference {
	return nil
}
