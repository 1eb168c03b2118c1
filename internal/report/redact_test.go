package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
			"nested tables and arrays of tables",
			"[[inputs.rdma_events]]\n[inputs.rdma_events.a.b]\ntoken = 's1'\n[[inputs.rdma_events.list]]\nx = 1\n[[inputs.rdma_events.list]]\npassword = 's2'\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    [inputs.rdma_events.a]\n      [inputs.rdma_events.a.b]\n        token = \"removed\"\n\n" +
				"    [[inputs.rdma_events.list]]\n      x = 1\n\n    [[inputs.rdma_events.list]]\n      password = \"removed\"\n",
			[]string{"a.b.token", "list[1].password"},
		},
		{
			"inline tables, also in arrays of several types",
			"[[inputs.rdma_events]]\na = {token = 's1', x = 1}\nb = [1, {my-key = 's2'}, [{secret = 's3'}]]\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    b = [1, {my-key = \"removed\"}, [{secret = \"removed\"}]]\n" +
				"    [inputs.rdma_events.a]\n      token = \"removed\"\n      x = 1\n",
			[]string{"a.token", "b[1].my-key", "b[2][0].secret"},
		},
		{
			"multi-line strings", "[[inputs.rdma_events]]\ntoken = \"\"\"\ns1\ns2\"\"\"\nworker_path = '''\n/opt/worker'''\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    token = \"removed\"\n    worker_path = \"/opt/worker\"\n", []string{"token"},
		},
		{
			"quoted and dotted keys", "inputs.rdma_events = [{\"the token\" = 's1', sub.pass_key = 's2'}]\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    \"the token\" = \"removed\"\n    [inputs.rdma_events.sub]\n      pass_key = \"removed\"\n",
			[]string{"sub.pass_key", "\"the token\""},
		},
		{
			"user information of URLs", "[[inputs.rdma_events]]\nurls = ['http://u:s1@h:8086/x', 'see tcp://s2@h, tcp://h', 'http://u:s/3@4@h/?q=1']\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    urls = [\"http://removed@h:8086/x\", \"see tcp://removed@h, tcp://h\", \"http://removed@h/?q=1\"]\n",
			[]string{"urls[0]", "urls[1]", "urls[2]"},
		},
		{
			"queries and variables in values", "[[inputs.rdma_events]]\nx = 'http://h/?a=1&api_token=s1&b=2'\nenvironment = ['HOME=/root', 'DB_PASSWORD=s2']\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    environment = [\"HOME=/root\", \"DB_PASSWORD=removed\"]\n    x = \"http://h/?a=1&api_token=removed&b=2\"\n",
			[]string{"environment[1]", "x"},
		},
		{
			"headers and command lines",
			"[[inputs.rdma_events]]\nheaders = ['Authorization: Bearer s1', 'X-Api-Key : s2', 'Accept: text']\nargs = ['--password', 's3', '--token s4:s8', '-v']\n" +
				"[inputs.rdma_events.more]\ncookie = 's5'\ndb_pwd = 's6'\npass = 's7'\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    args = [\"--password\", \"removed\", \"--token removed\", \"-v\"]\n" +
				"    headers = [\"Authorization: removed\", \"X-Api-Key: removed\", \"Accept: text\"]\n    [inputs.rdma_events.more]\n" +
				"      cookie = \"removed\"\n      db_pwd = \"removed\"\n      pass = \"removed\"\n",
			[]string{"headers[0]", "headers[1]", "args[1]", "args[2]", "more.cookie", "more.db_pwd", "more.pass"},
		},
		{
			"filters of every input", "[[inputs.rdma_events]]\nnamepass = ['rdma_*']\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    namepass = [\"rdma_*\"]\n", nil,
		},
		{
			"sections of other plugins, and variables",
			"[agent]\ninterval='10s'\n[[outputs.influxdb]]\npassword='s1'\n[[inputs.cpu]]\n[[inputs.rdma_events]]\ndevices = [\"$FIRST\"]\n",
			"[inputs]\n\n  [[inputs.rdma_events]]\n    devices = [\"$FIRST\"]\n", nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Redact(tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.want, r.Text)
			require.NotRegexp(t, `s\d`, r.Text)
			var want []string
			for _, place := range tt.removed {
				want = append(want, "inputs.rdma_events[0]."+place)
			}
			require.ElementsMatch(t, want, r.Removed)
			again, err := Redact(r.Text)
			require.NoError(t, err, "the text is TOML")
			require.Equal(t, r.Text, again.Text)
		})
	}
}

// A syntax error of the parser quotes what stands there.
func TestAnErrorQuotesNothingOfTheFile(t *testing.T) {
	for _, text := range []string{
		"[[inputs.rdma_events]]\ntoken = hunter2\n", "token = \"hunter2\n", "hunter2", "[[inputs.rdma_events]]\nhunter2 = hunter2",
		"[[inputs.rdma_events]]\nseed = $hunter2\n", "a = 1\na = \"hunter2\"\n", "x = \"\\hunter2\"\n", "[outputs]\ntoken = \"hunter2\"\n", "inputs = 1\n",
	} {
		_, err := Redact(text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "hunter")
	}
	_, err := Redact("a = 1\n[[inputs.rdma_events]]\ntoken = hunter2\n")
	require.EqualError(t, err, "it is no TOML: line 3, before variables of the environment are put in")
	_, err = Redact("[outputs]\n")
	require.ErrorIs(t, err, ErrNoSections)
}

func FuzzNothingOfASecretIsLeft(f *testing.F) {
	f.Add("token", "x")
	f.Add("a.b", "http://u:p@h")
	f.Fuzz(func(t *testing.T, key, value string) {
		const word = "HUNTER2HUNTER2"
		for _, text := range []string{
			"[[inputs.rdma_events]]\n[inputs.rdma_events.\"" + key + "\"]\nmy_token = '" + word + "'\nother = '''" + value + "'''\n",
			"[[inputs.rdma_events]]\n\"" + key + "\" = [{password = '" + word + "'}, '''" + value + "''']\n",
		} {
			r, err := Redact(text)
			if err != nil {
				require.NotContains(t, err.Error(), word)
				continue
			}
			require.NotContains(t, r.Text, word)
			_, err = Redact(r.Text)
			require.NoError(t, err)
		}
	})
}
