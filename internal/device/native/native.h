// The C interface of the native backend. Only the Go files *_linux.go of this
// package call it. Rules: integers have fixed widths; C keeps no Go memory after a
// call returns; struct result has a positive errno and the call that failed.
#ifndef RDMA_EVENTS_NATIVE_H
#define RDMA_EVENTS_NATIVE_H

#include <stdint.h>

// The layout of the ledger. internal/device/ledger/layout.go explains the fields.
// clang-format off
enum { LEDGER_EVENTS = 2048, LEDGER_PROBES = 1536, CALL_PORT_SHIFT = 16 };
enum { LEDGER_FABRICS = 8, FABRIC_PAIRS = 64, FABRIC_PATHS = 4 };
enum { RUN_RING = 4096, ROUND_RING = 128 };
struct thread_state { uint32_t call, thread; int64_t since; };
struct ledger_event { int32_t type, port; uint64_t read, acked, unlisted; };
// clang-format on
struct ledger_probe {
	uint32_t port, vector, method, pad;
	struct thread_state thread;
	uint64_t rounds, successes, errors, lost_events, lost_completions;
	uint64_t events, acked, spurious, late, resent, disturbed;
	uint8_t pad2[8];
};
struct ledger_fabric_pair {
	uint64_t session, sent, answered, writes, writes_ok, write_errors;
	uint8_t pad[16];
};
struct ledger_fabric {
	uint32_t port, pad;
	struct thread_state thread, control;
	uint64_t events, acked, spurious, echoed, refused, foreign, dry;
	uint8_t pad2[32];
	struct ledger_fabric_pair pair[FABRIC_PAIRS];
};
struct run {
	int32_t type, port;
	uint64_t count;
	int64_t first, last, hold_sum, hold_max, ack_sum, ack_max;
};
struct round {
	int32_t outcome, err;
	uint32_t call;
	int32_t wc_status;
	int64_t start, wake, get, arm, drain, hold, ack, total;
};
// The rings. native_ring.c writes their entries, and the host copies them.
struct ring {
	uint64_t written, taken, omitted;
	uint8_t pad[40];
};
struct run_ring {
	struct ring ring;
	struct run entry[RUN_RING];
};
struct round_ring {
	struct ring ring;
	struct round entry[ROUND_RING];
};
struct ledger {
	uint64_t magic;
	uint32_t events, probes;
	struct thread_state reader, control, evidence;
	uint32_t fabrics, pad0;
	int64_t alive;
	uint8_t pad[1024 - 16 - 3 * 16 - 16];
	struct ledger_event event[LEDGER_EVENTS];
	struct ledger_probe probe[LEDGER_PROBES];
	struct ledger_fabric fabric[LEDGER_FABRICS];
	struct run_ring runs;
	struct round_ring rounds[LEDGER_PROBES];
};

// The layout test in internal/device/ledger asserts the same numbers.
_Static_assert(sizeof(struct ledger_event) == 32, "event slot");
_Static_assert(sizeof(struct ledger_probe) == 128, "probe slot");
_Static_assert(__builtin_offsetof(struct ledger, reader) == 16, "reader state");
_Static_assert(__builtin_offsetof(struct ledger, evidence) == 48, "evidence state");
_Static_assert(__builtin_offsetof(struct ledger, event) == 1024, "event slots");
_Static_assert(__builtin_offsetof(struct ledger, probe) == 1024 + 2048 * 32, "probe slots");
_Static_assert(__builtin_offsetof(struct ledger, fabrics) == 64, "number of fabric slots");
_Static_assert(__builtin_offsetof(struct ledger, fabric) == 1024 + 2048 * 32 + 1536 * 128, "fabric slots");
_Static_assert(sizeof(struct ledger_fabric) == 128 + 64 * 64, "fabric slot");
_Static_assert(__builtin_offsetof(struct ledger_fabric, events) == 40, "fabric counts");
_Static_assert(__builtin_offsetof(struct ledger_fabric, pair) == 128, "fabric pairs");
_Static_assert(__builtin_offsetof(struct ledger_probe, thread) == 16, "probe state");
_Static_assert(__builtin_offsetof(struct ledger_probe, rounds) == 32, "rounds");
_Static_assert(__builtin_offsetof(struct ledger_probe, events) == 72, "events");
_Static_assert(__builtin_offsetof(struct ledger_probe, late) == 96, "late");
_Static_assert(__builtin_offsetof(struct ledger_probe, resent) == 104, "resent");
_Static_assert(__builtin_offsetof(struct ledger_probe, disturbed) == 112, "disturbed");
_Static_assert(__builtin_offsetof(struct ledger, alive) == 72, "alive");
_Static_assert(__builtin_offsetof(struct ledger, runs) == 296960, "ring of runs");
_Static_assert(__builtin_offsetof(struct ledger, rounds) == 296960 + 64 + 4096 * 64, "rings of rounds");
_Static_assert(sizeof(struct round_ring) == 64 + 128 * 80, "ring of rounds");
_Static_assert(__builtin_offsetof(struct round, start) == 16, "times of a round");

// NO_ERRNO stands in for the errno of a call that failed without setting one (bnxt_re's
// create_qp, hns' create_ah). The kernel's errno values end at 4095
// (include/linux/err.h).
enum { NO_ERRNO = 4096 };

// clang-format off
struct result { int32_t err; uint32_t call; };
// clang-format on

struct device;
// clang-format off
struct device_info { int32_t ports, vectors, transport; char firmware[64]; };
// clang-format on
struct port_info {
	int32_t state, phys, link_layer, mtu, lid, sm_lid, width, needs_grh;
	uint32_t speed;
};
struct gid_entry {
	uint8_t gid[16];
	uint32_t index, port, type, ifindex;
};

// native_load loads libibverbs, once per process. This runs code of the library and may
// hang; led records the call meanwhile. On failure it returns an errno and writes the
// message of dlopen or the name of the missing symbol to why.
int native_load(struct ledger *led, char *why, int size);
// native_listed returns the number of devices that libibverbs lists, or -errno. It sets has
// to 1 if one of them has this name, and to 0 otherwise.
int native_listed(struct ledger *led, const char *name, int *has);
// native_library returns the path from which libibverbs was loaded; NULL if it is unknown.
const char *native_library(void);
// native_open opens a device by name. doorbell is the eventfd by which the device wakes the host, or -1. port_types is the
// bit mask of the event types whose element is a port number.
struct result native_open(const char *name, struct ledger *led, int doorbell, uint64_t port_types,
			  struct device **out, struct device_info *info);
struct result native_query_port(struct device *d, int port, struct port_info *out);
// native_query_port_speed writes the port's current data rate, in units of 100 Mb/s. EOPNOTSUPP: the library lacks the query.
struct result native_query_port_speed(struct device *d, int port, uint64_t *speed);
// native_gids reads the filled entries of the GID tables of all ports. It returns their
// number or -errno; -ENOSYS if the library cannot read whole tables. cap times the size of
// an entry must fit into the 16 bits of an attribute's length (struct ib_uverbs_attr in
// include/uapi/rdma/rdma_user_ioctl_cmds.h).
int native_gids(struct device *d, struct gid_entry *out, int cap);
// native_read waits up to wait_ns (negative: without limit) for asynchronous events. It
// then reads and acknowledges events until the queue is empty, runs is full, or the
// limit for one call is reached, as in a storm. It writes the runs into the ring of
// the ledger, rings the doorbell, and returns the number of runs or -errno; -ECANCELED
// after native_wake.
int native_read(struct device *d, struct run *runs, int cap, int64_t wait_ns);
// native_wake makes all current and later waits on d return at once.
void native_wake(struct device *d);
// native_close must not run concurrently with any other call on d except native_wake.
int native_close(struct device *d);

struct probe;
struct probe_config {
	int32_t port, vector, method, slot, ack_batch, gid_index, pkey_index, global, lid, trial;
	int32_t keep_handle; // keep one address handle for all rounds: addresses do not change on this port
	int32_t handle_command; // creating an address handle is a firmware command
	int64_t timeout_ns;
	uint8_t gid[16];
};
struct result native_probe_open(struct device *d, const struct probe_config *c, struct probe **out);
// native_probe_rounds runs rounds at a pace (verbs.Pace) until one fails, writes each into the ring of the probe, and
// returns their number. If native_probe_nudge ends the pause before a round, that round is canceled. usable is set to
// whether another round can succeed.
int native_probe_rounds(struct probe *p, int64_t pause_ns, int64_t interval_ns, int64_t for_ns,
			struct round *last, int *usable);
// native_probe_keep ends a trial: it counts the outcomes of its rounds and writes the last
// round into the ring. It must not run concurrently with native_probe_rounds.
void native_probe_keep(struct probe *p);
void native_probe_nudge(struct probe *p);
struct result native_probe_close(struct probe *p);
// native_query_qp queries the state of the probe's queue pair. It may run concurrently with
// all other calls on p except native_probe_close. It must not be used with the flush method,
// whose rounds create new queue pairs.
struct result native_query_qp(struct probe *p);

// Probes between hosts (native_fabric.c). verbs.FabricKind has the same order.
enum fabric_kind {
	FK_PROBE,	 // a probe was sent
	FK_ECHO,	 // the echo of a probe arrived
	FK_WRITE,	 // a write was posted
	FK_WRITE_DONE,	 // the peer's device acknowledged the write
	FK_WRITE_FAILED, // the write ended in an error, which also put its queue pair into the error state
	FK_MISSING,	 // an echo is missing
	FK_LATE,	 // the thread woke later than planned, by took
	FK_UNSENT,	 // the device refused a probe
};
enum fabric_role { FR_PROBES, FR_ANSWERS };
// FABRIC_ROOM is the number of items for which native_fabric_run needs space: the items of one batch of completions and of
// one round of a pair.
enum { FABRIC_BATCH = 384, FABRIC_ROOM = FABRIC_BATCH + 8 };
struct fabric;
struct fabric_config {
	int32_t port, slot, paths, pkey_index, service_level, traffic_class;
	uint32_t qkey;
	int32_t more_probes;
	int64_t interval_ns;
	// The times of verdict.EchoWatch, and verdict.LateAfter.
	int64_t missing_ns, write_silent_ns, more_ns, late_ns;
};
// fabric_peer describes a port of another host, and how this port reaches it. The PSNs are the first ones of the RC queue
// pairs: own_psn for packets of this side, psn for packets of the peer.
struct fabric_peer {
	int32_t role, global, gid_index, lid, paths;
	uint32_t qkey, rc, psn, own_psn;
	uint32_t ud[FABRIC_PATHS];
	uint64_t session;
	int64_t first_ns; // from now to the first probe
	uint8_t gid[16];
};
// fabric_item is a verbs.FabricFact. status is a completion status, or a negative errno of ibv_post_send.
struct fabric_item {
	int32_t kind, pair, path, dry, status;
	uint32_t seq, rx, tx;
	uint64_t session;
	int64_t at, took, delay;
};
// fabric_end tells how a native_fabric_run ended. After a failure the queues cannot be used any more. Either a call failed,
// or a UD queue pair was flushed; wc_status then is the reason.
struct fabric_end {
	struct result failed;
	int32_t wc_status;
	int64_t up_to; // everything that had completed by then has been handled
};
// native_fabric_open creates the queues of a port, and writes the numbers of its UD queue pairs to ud.
struct result native_fabric_open(struct device *d, const struct fabric_config *c, struct fabric **out,
				 uint32_t ud[FABRIC_PATHS]);
// native_fabric_run echoes and probes for for_ns, and returns the number of items. It returns early when out is nearly full,
// after an urgent item, and after native_fabric_nudge or native_wake. cap must be at least FABRIC_ROOM.
int native_fabric_run(struct fabric *f, int64_t for_ns, struct fabric_item *out, int cap,
		      struct fabric_end *end);
// native_fabric_offer creates the RC queue pair for a slot, in state INIT, and writes its number to rc. native_fabric_join
// connects it and replaces the pair that runs in the slot; after a failure that pair continues. These two functions and
// native_fabric_leave may run concurrently with native_fabric_run, but not with each other. They may block while the kernel
// resolves the peer's address.
struct result native_fabric_offer(struct fabric *f, int pair, int role, uint32_t *rc);
struct result native_fabric_join(struct fabric *f, int pair, const struct fabric_peer *peer);
struct result native_fabric_leave(struct fabric *f, int pair);
void native_fabric_nudge(struct fabric *f);
// native_fabric_close must not run concurrently with any other call on f.
struct result native_fabric_close(struct fabric *f);

#endif
