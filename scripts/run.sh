#!/bin/bash
# Runs real Telegraf with the plugin and prints line protocol. It uses the host's
# RDMA devices if there are any, else the simulator. $1 limits the time ("10s").
set -eu
cd "$(dirname "$0")/.."
bound=${1:-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

devices=$(ls /sys/class/infiniband 2>/dev/null || true)
if [ -n "$devices" ]; then
  echo "make run: on the RDMA devices of this host: $(echo "$devices" | xargs)" >&2
  printf '[[inputs.rdma_events]]\n' > "$dir/rdma_events.conf"
else
  echo "make run: this host has no RDMA device (/sys/class/infiniband is empty): on the simulator" >&2
  cat > "$dir/rdma_events.conf" <<'EOF'
[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.sim]
    scenario = "mixed"
  [inputs.rdma_events.applications]
    objects = true
    events = true
    by = ["app", "unit"]
EOF
fi
cat > "$dir/telegraf.conf" <<EOF
[agent]
  interval = "1s"
  flush_interval = "1s"
  skip_processors_after_aggregators = true
[[inputs.execd]]
  command = ["$PWD/build/rdma-events", "-config", "$dir/rdma_events.conf", "-poll_interval_disabled"]
  signal = "STDIN"
  restart_delay = "1s"
  data_format = "influx"
[[outputs.file]]
  files = ["stdout"]
  data_format = "influx"
EOF

if [ -z "$bound" ]; then
  build/tools/telegraf --config "$dir/telegraf.conf"
  exit
fi
# The status 124 of timeout is the planned end. Any other status is Telegraf's and is passed on.
status=0
timeout --foreground -s TERM "$bound" build/tools/telegraf --config "$dir/telegraf.conf" || status=$?
[ "$status" = 124 ] || exit "$status"
