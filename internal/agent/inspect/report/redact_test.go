package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// someOptions are options of the plugin.
var someOptions = []string{
	"devices", "worker_path", "probe.pkey_index", "fabric.host", "fabric.key_file", "fabric.tls_key", "sim.seed",
}

func TestSecretsAreRemovedWhereverTheyStand(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		removed          []string
	}{
		{
			"nothing", "[[inputs.rdma_events]]\n  devices = [\"mlx5_*\"] # our cards\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    devices = [\"mlx5_*\"]\n", nil,
		},
		{
			"a key of each word",
			"[[inputs.rdma_events]]\n token='s1'\n Password='s2'\n api_key='s3'\n SECRET='s4'\n passphrase='s5'\n credentials='s6'\n authorization='s7'\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    Password = \"removed\"\n    SECRET = \"removed\"\n    api_key = \"removed\"\n" +
				"    authorization = \"removed\"\n    credentials = \"removed\"\n    passphrase = \"removed\"\n    token = \"removed\"\n",
			[]string{"Password", "SECRET", "api_key", "authorization", "credentials", "passphrase", "token"},
		},
		{
			"a P_Key's index is none", "[[inputs.rdma_events]]\nprobe.pkey_index = 1\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    [inputs.rdma_events.probe]\n      pkey_index = 1\n", nil,
		},
		{
			"but a text in its place may be one", "[[inputs.rdma_events]]\nprobe.pkey_index = \"s1\"\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    [inputs.rdma_events.probe]\n      pkey_index = \"removed\"\n", []string{"probe.pkey_index"},
		},
		{
			"the name of a key's file is none",
			"[[inputs.rdma_events]]\nfabric.key_file = '/etc/rdma-events/fabric.key'\nfabric.tls_key = '/etc/ssl/private/n042.pem'\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    [inputs.rdma_events.fabric]\n      key_file = \"/etc/rdma-events/fabric.key\"\n" +
				"      tls_key = \"/etc/ssl/private/n042.pem\"\n", nil,
		},
		{
			"but a key in its place is one",
			"[[inputs.rdma_events]]\nfabric.key_file = '/s1/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='\nfabric.tls_key = '5ec2e7'\nprobe.key_file = '/etc/s3'\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    [inputs.rdma_events.fabric]\n      key_file = \"removed\"\n      tls_key = \"removed\"\n" +
				"    [inputs.rdma_events.probe]\n      key_file = \"removed\"\n", []string{"fabric.key_file", "fabric.tls_key", "probe.key_file"},
		},
		{
			"values of other types", "[[inputs.rdma_events]]\n token = 4711\n keys = ['s1', 's2']\n secret = 1979-05-27T07:32:00Z\n auth = true\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    auth = \"removed\"\n    keys = \"removed\"\n    secret = \"removed\"\n    token = \"removed\"\n",
			[]string{"auth", "keys", "secret", "token"},
		},
		{
			"a table whose name has a word", "[[inputs.rdma_events]]\n[inputs.rdma_events.credentials]\nuser = 's1'\n[inputs.rdma_events.sim]\nseed = 1\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    credentials = \"removed\"\n    [inputs.rdma_events.sim]\n      seed = 1\n", []string{"credentials"},
		},
		{
			"of tables that are no section, the names alone",
			"[[inputs.rdma_events]]\n[inputs.rdma_events.a.b]\nx = 's1'\n[[inputs.rdma_events.list]]\nx = 's2'\n[[inputs.rdma_events.probe]]\nx = 's3'\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    a = \"removed\"\n    list = \"removed\"\n    probe = \"removed\"\n", []string{"a", "list", "probe"},
		},
		{
			"of unknown options, the names alone, whatever the values are",
			"[[inputs.rdma_events]]\na = \"password: 's1'\"\nb = '{\"token\": \"s2\"}'\nc = 'X-Api-Key  s3'\nd = \"pwd = 's4 s5'\"\ne = ['-u', 's6']\n" +
				"f = 's7'\ng = 1\nh = {x = 's8'}\n[inputs.rdma_events.probe]\ni = 's9'\npkey_index = 2\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    a = \"removed\"\n    b = \"removed\"\n    c = \"removed\"\n    d = \"removed\"\n    e = \"removed\"\n" +
				"    f = \"removed\"\n    g = \"removed\"\n    h = \"removed\"\n    [inputs.rdma_events.probe]\n      i = \"removed\"\n      pkey_index = 2\n",
			[]string{"a", "b", "c", "d", "e", "f", "g", "h", "probe.i"},
		},
		{
			"a header in the place of a name", "[[inputs.rdma_events]]\n'Authorization: Bearer s1' = 1\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    removed = \"removed\"\n", []string{"removed"},
		},
		{
			"secrets in values of known options",
			"[[inputs.rdma_events]]\ndevices = ['mlx5_0', 'token=s1', {x = 's2'}, ['pwd: s3']]\nworker_path = '{\"secret\": \"s4\"}'\n" +
				"fabric.host = \"Bearer\\ns5\"\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    devices = [\"mlx5_0\", \"removed\", \"removed\", [\"removed\"]]\n    worker_path = \"removed\"\n" +
				"    [inputs.rdma_events.fabric]\n      host = \"removed\"\n",
			[]string{"devices[1]", "devices[2]", "devices[3][0]", "worker_path", "fabric.host"},
		},
		{
			"a section that is a value, and an option that is a table", "[[inputs.rdma_events]]\nfabric = 's1'\n[inputs.rdma_events.devices]\nx = 's2'\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    devices = \"removed\"\n    fabric = \"removed\"\n", []string{"devices", "fabric"},
		},
		{
			"multi-line strings", "[[inputs.rdma_events]]\ntoken = \"\"\"\ns1\ns2\"\"\"\nworker_path = '''\n/opt/worker'''\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    token = \"removed\"\n    worker_path = \"/opt/worker\"\n", []string{"token"},
		},
		{
			"quoted and dotted keys", "inputs.rdma_events = [{\"the token\" = 's1', sub.pass_key = 's2'}]\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    sub = \"removed\"\n    \"the token\" = \"removed\"\n",
			[]string{"sub", "\"the token\""},
		},
		{
			"user information of URLs, and their parameters",
			"[[inputs.rdma_events]]\ndevices = ['http://u:s1@h:8086/x', 'see tcp://s2@h, tcp://h', 'http://u:s/3@4@h/?q=1', " +
				"'http://h/?a=1&api_token=s1&b=2', 'tcp://h']\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    devices = [\"removed\", \"removed\", \"removed\", \"removed\", \"tcp://h\"]\n",
			[]string{"devices[0]", "devices[1]", "devices[2]", "devices[3]"},
		},
		{
			"options of every input", "[[inputs.rdma_events]]\nnamepass = ['rdma_*']\ntags = {x = 's1'}\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    namepass = \"removed\"\n    tags = \"removed\"\n", []string{"namepass", "tags"},
		},
		{
			"sections of other plugins, and variables",
			"[agent]\ninterval='10s'\n[[outputs.influxdb]]\npassword='s1'\n[[inputs.cpu]]\n[[inputs.rdma_events]]\ndevices = [\"$FIRST\"]\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    devices = [\"$FIRST\"]\n", nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Redact(tt.text, someOptions)
			require.NoError(t, err)
			require.Equal(t, tt.want, r.Text)
			require.NotRegexp(t, `s\d`, r.Text)
			var want []string
			for _, place := range tt.removed {
				want = append(want, "inputs.rdma_events[0]."+place)
			}
			require.ElementsMatch(t, want, r.Removed)
			again, err := Redact(r.Text, someOptions)
			require.NoError(t, err, "the text is TOML")
			require.Equal(t, r.Text, again.Text)
		})
	}
}

// The parser's syntax error quotes the text at the error.
func TestAnErrorQuotesNothingOfTheFile(t *testing.T) {
	for _, text := range []string{
		"[[inputs.rdma_events]]\ntoken = hunter2\n", "token = \"hunter2\n", "hunter2", "[[inputs.rdma_events]]\nhunter2 = hunter2",
		"[[inputs.rdma_events]]\nseed = $hunter2\n", "a = 1\na = \"hunter2\"\n", "x = \"\\hunter2\"\n", "[outputs]\ntoken = \"hunter2\"\n", "inputs = 1\n",
	} {
		_, err := Redact(text, someOptions)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "hunter")
	}
	_, err := Redact("a = 1\n[[inputs.rdma_events]]\ntoken = hunter2\n", someOptions)
	require.EqualError(t, err, "it is no TOML: line 3, before variables of the environment are put in")
	_, err = Redact("[outputs]\n", someOptions)
	require.ErrorIs(t, err, ErrNoSections)
}

func FuzzNothingOfASecretIsLeft(f *testing.F) {
	f.Add("token", "x")
	f.Add("a.b", "http://u:p@h")
	f.Add("devices", "x")
	f.Add("probe", "x")
	f.Fuzz(func(t *testing.T, key, value string) {
		const word = "HUNTER2HUNTER2"
		for _, text := range []string{
			"[[inputs.rdma_events]]\n[inputs.rdma_events.\"" + key + "\"]\nmy_token = '" + word + "'\nother = '''" + value + "'''\n",
			"[[inputs.rdma_events]]\n\"" + key + "\" = [{password = '" + word + "'}, '''" + value + "''']\n",
			"[[inputs.rdma_events]]\nx = '''" + key + word + value + "'''\ndevices = ['''" + key + "token: " + word + value + "''']\n",
		} {
			r, err := Redact(text, someOptions)
			if err != nil {
				require.NotContains(t, err.Error(), word)
				continue
			}
			require.NotContains(t, r.Text, word)
			_, err = Redact(r.Text, someOptions)
			require.NoError(t, err)
		}
	})
}
