package native

import "sync"

// pkeyIndexes caches the index of the P_Key for the probes of each port until the table
// changes. It may be used concurrently. Only get blocks, while it calls read.
type pkeyIndexes struct {
	mu      sync.Mutex
	changes uint64
	index   map[int]int // by port
}

// get returns a port's index, and calls read if the index is unknown. It does not cache an
// index that was read while the table changed.
func (k *pkeyIndexes) get(port int, read func() (int, error)) (int, error) {
	index, known, changes := k.known(port)
	if known {
		return index, nil
	}
	index, err := read()
	if err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.changes == changes {
		if k.index == nil {
			k.index = map[int]int{}
		}
		k.index[port] = index
	}
	return index, nil
}

func (k *pkeyIndexes) known(port int) (index int, known bool, changes uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	index, known = k.index[port]
	return index, known, k.changes
}

// forget clears the cache after a change of the tables.
func (k *pkeyIndexes) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	clear(k.index)
}
