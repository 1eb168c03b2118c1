package nldev

// Holder is the holder of an object. Neither Thread nor Kernel is set for an unknown holder.
type Holder struct {
	Thread int    // a thread of a program, as in Object
	Kernel string // a kernel module
}

// Holders returns the holder of each object, in the same order: the creator of the object or, if that is unknown, the
// creator of its protection domain or of its context. An object outlives the thread that created it, but the thread
// that created the protection domain or the context may still run, and belongs to the same process. A child that
// inherited a context by fork(2) holds the objects that it creates itself.
//
// The objects belong to one device, and may be of any kinds. The parent of an object that was created during the dumps
// may be missing. Its holder is then unknown.
func Holders(objects []Object) []Holder {
	known := map[objectKey]*Object{}
	for i := range objects {
		if o := &objects[i]; o.Kind == Contexts || o.Kind == ProtectionDomains {
			known[objectKey{o.Kind, o.Number}] = o
		}
	}
	holders := make([]Holder, len(objects))
	for i := range objects {
		for o := &objects[i]; o != nil; o = known[parentKey(o)] {
			if o.Thread != 0 || o.Kernel != "" {
				holders[i] = Holder{Thread: o.Thread, Kernel: o.Kernel}
				break
			}
		}
	}
	return holders
}

// objectKey identifies an object. No object has the zero objectKey.
type objectKey struct {
	kind   Kind
	number uint32
}

// parentKey returns the key of an object's parent. The parent is always of a higher kind, so that no chain of parents
// is circular.
func parentKey(o *Object) objectKey {
	if !o.HasParent {
		return objectKey{}
	}
	switch o.Kind {
	case QueuePairs, SharedReceiveQueues:
		return objectKey{ProtectionDomains, o.Parent}
	case ProtectionDomains, CompletionQueues:
		return objectKey{Contexts, o.Parent}
	case Contexts:
	}
	return objectKey{}
}
