package stack

import "fmt"

// agentConfig returns Telegraf's configuration without its inputs.
func agentConfig(url string) string {
	return fmt.Sprintf(`[agent]
  interval = "%v"
  flush_interval = "1s"
  omit_hostname = true
  skip_processors_after_aggregators = true
[[outputs.influxdb]]
  urls = [%q]
  database = %q
  skip_database_creation = true
`, interval, url, database)
}

// inputConfig returns Telegraf's configuration of a host: an instance of the plugin
// whose points have the name of the host.
func inputConfig(program, conf, host string) string {
	return fmt.Sprintf(`[[inputs.execd]]
  command = [%q, "-config", %q, "-poll_interval_disabled"]
  signal = "STDIN"
  restart_delay = "10s"
  data_format = "influx"
  [inputs.execd.tags]
    host = %q
`, program, conf, host)
}

// pluginConfig returns the plugin's configuration on a host.
func pluginConfig(s simulated, seed int) string {
	return fmt.Sprintf(`[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.sim]
    profile = %q
    scenario = %q
    seed = %d
  [inputs.rdma_events.applications]
    objects = true
    events = true
    by = ["app", "unit"]
`, s.profile, s.scenario, seed)
}
