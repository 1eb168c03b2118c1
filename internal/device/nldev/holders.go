package nldev

// Holder is who holds an object. Neither Thread nor Kernel is set for one that is not known.
type Holder struct {
	Thread int    // of a program, as in Object
	Kernel string // module
}

// Holders returns the holder of each object, in the same order: who created it or, where that is not known, its
// protection domain or its context. An object outlives the thread that created it, while another one of the same
// process may still run that created the protection domain or the context. A child that inherited a context by fork(2)
// holds what it creates itself.
//
// The objects are of one device, and of any kinds. Those that were created during the dumps may have a parent that is
// missing. Then the holder is not known either.
func Holders(objects []Object) []Holder {
	known := map[name]*Object{}
	for i := range objects {
		if o := &objects[i]; o.Kind == Contexts || o.Kind == ProtectionDomains {
			known[name{o.Kind, o.Number}] = o
		}
	}
	holders := make([]Holder, len(objects))
	for i := range objects {
		for o := &objects[i]; o != nil; o = known[parent(o)] {
			if o.Thread != 0 || o.Kernel != "" {
				holders[i] = Holder{Thread: o.Thread, Kernel: o.Kernel}
				break
			}
		}
	}
	return holders
}

// name is what an object is known by. No object has the zero one.
type name struct {
	kind   Kind
	number uint32
}

// parent returns the name of an object's parent. It is always of a higher kind, so that no chain of parents is a circle.
func parent(o *Object) name {
	if !o.HasParent {
		return name{}
	}
	switch o.Kind {
	case QueuePairs, SharedReceiveQueues:
		return name{ProtectionDomains, o.Parent}
	case ProtectionDomains, CompletionQueues:
		return name{Contexts, o.Parent}
	case Contexts:
	}
	return name{}
}
