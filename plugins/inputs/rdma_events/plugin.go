package rdma_events

import (
	_ "embed"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/inputs"

	"rdma_events/internal/agent"
)

//go:generate go run ./metricsdoc ../../../docs/reference/metrics.md README.md ../../../internal/telemetry/measure/testdata/filled.influx
//go:generate go run ./driversdoc ../../..
//go:generate go run ./fabricdoc ../../../docs/reference/verdicts.md

//go:embed sample.conf
var sampleConfig string

// Plugin is the input plugin, a telegraf.ServiceInput. Telegraf calls Init, Start, Gather and Stop in this order and
// never concurrently. A Plugin cannot be started again after Stop.
type Plugin struct {
	agent.Config

	Log telegraf.Logger `toml:"-"`

	// Interrupt makes a blocked call of the accumulator return. Stop calls it when everything is emitted or its time is
	// up. It is nil if the accumulator never blocks for long.
	Interrupt func() `toml:"-"`

	// Version and StatusDir are passed to agent.Options.
	Version   string `toml:"-"`
	StatusDir string `toml:"-"`

	agent *agent.Agent // nil before Start
}

// New returns a plugin with the default configuration.
func New() *Plugin { return &Plugin{Config: agent.DefaultConfig()} }

// SampleConfig returns the documented configuration with all defaults.
func (*Plugin) SampleConfig() string { return sampleConfig }

// Init checks the configuration. It acquires no resources.
func (p *Plugin) Init() error { return p.Validate() }

// Start starts the agent. It adds nothing to acc itself, because Telegraf's shim does not read yet.
func (p *Plugin) Start(acc telegraf.Accumulator) error {
	p.agent = agent.New(&p.Config, agent.Options{Log: newLogger(p.Log), Version: p.Version, StatusDir: p.StatusDir})
	return p.agent.Start(acc)
}

// Gather queues the metrics of the interval. They go to the accumulator that was passed to Start.
func (p *Plugin) Gather(telegraf.Accumulator) error {
	p.agent.Gather()
	return nil
}

// Stop stops the agent. It may be called before Start.
func (p *Plugin) Stop() {
	if p.agent != nil {
		p.agent.Stop(p.Interrupt)
	}
}

func init() {
	inputs.Add("rdma_events", func() telegraf.Input { return New() })
}

var _ telegraf.ServiceInput = (*Plugin)(nil)
var _ telegraf.Initializer = (*Plugin)(nil)
