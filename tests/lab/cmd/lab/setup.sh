# shellcheck shell=sh disable=SC2154
# Runs in the guest before the prompt. It makes one RoCE device, and starts the plugin under a real Telegraf if both are
# built.
modprobe -a dummy crc32_generic rdma_rxe
/usr/bin/ip link add d0 type dummy
/usr/bin/ip addr add 10.77.0.1/24 dev d0
/usr/bin/ip link set d0 up
/usr/bin/rdma link add rxe0 type rxe netdev d0
insmod "$LAB_EVINJECT"
PATH=$PATH:$(dirname "$RDMA_EVENTS_BIN"):$(dirname "$TELEGRAF_BIN")

plugin="build it first, to have it running here: make build"
if [ -x "$RDMA_EVENTS_BIN" ] && [ -x "$TELEGRAF_BIN" ]; then
	echo '[[inputs.rdma_events]]' >/run/rdma_events.conf
	cat >/run/telegraf.conf <<-CONF
		[agent]
		  flush_interval = "1s"
		[[inputs.execd]]
		  command = ["$RDMA_EVENTS_BIN", "-config", "/run/rdma_events.conf"]
		  signal = "none"
		[[outputs.file]]
		  files = ["/run/metrics.out"]
	CONF
	: >/run/metrics.out
	# Telegraf has a separate session, so that Ctrl-C at the prompt does not reach it.
	setsid "$TELEGRAF_BIN" --config /run/telegraf.conf >/run/telegraf.log 2>&1 </dev/null &
	plugin="tail -f /run/metrics.out             what it emits (log: /run/telegraf.log)"
fi

cat <<BANNER

A guest with one RoCE device, rxe0, on netdev d0. Nothing here outlives it but /out. To try:
  $plugin
  ip link set d0 down; ip link set d0 up   port_err, port_active
  ip addr add 10.77.0.2/24 dev d0          gid_change
  echo rxe0 12 1 5 >/sys/kernel/debug/rdma_evinject
                                           five of any event: device, type, port, count
  \$LAB_LINKFLAP d0 10 20000 100000         ten flaps of 20 ms, one every 100 ms
  \$LAB_APPS                                an application that misbehaves: open rxe0, read 0 hold, destroy qp, exit
  ibv_asyncwatch -d rxe0                   the events as libibverbs sees them
  rdma link delete rxe0                    the device goes (waits while anyone has it open)
  exit                                     the guest goes

BANNER
