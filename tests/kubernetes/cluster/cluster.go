package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"rdma_events/tests/child"
)

const stopTimeout = 30 * time.Second

// Cluster is the running servers of a cluster. Its methods may be called concurrently, except Close.
type Cluster struct {
	programs string // the directory of the programs
	dir      string // the directory of its files
	servers  []server
}

type server struct {
	name    string
	process *child.Process
	log     *os.File
}

// Start starts the servers from the programs in a directory, keeps their files in dir, and blocks until the API server is
// ready. The servers listen on free ports of 127.0.0.1. The caller must close the cluster. The error wraps child.ErrExited if a
// server ended, and names its log.
func Start(ctx context.Context, programs, dir string) (*Cluster, error) {
	c := &Cluster{programs: programs, dir: dir}
	if err := c.startServers(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) startServers(ctx context.Context) error {
	ports, err := child.FreePorts(ctx, 4)
	if err != nil {
		return err
	}
	clients, peers, api := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1], "https://127.0.0.1:"+ports[2]
	if err := c.startServer("etcd", "--data-dir", c.pathOf("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers); err != nil {
		return err
	}
	token, err := c.writeCredentials(api)
	if err != nil {
		return err
	}
	if err := c.startServer("kube-apiserver", "--etcd-servers", clients, "--bind-address", "127.0.0.1", "--secure-port", ports[2],
		"--cert-dir", c.pathOf("certificates"), "--token-auth-file", token, "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", c.pathOf("accounts.key"),
		"--service-account-signing-key-file", c.pathOf("accounts.key"), "--service-cluster-ip-range", "10.0.0.0/24",
		// The types of the documents' example for dynamic resource allocation.
		"--runtime-config", "resource.k8s.io/v1beta2=true", "--feature-gates", "DRADeviceTaints=true,DRADeviceTaintRules=true"); err != nil {
		return err
	}
	if err := c.waitReady(ctx); err != nil {
		return err
	}
	// No kubelet reports that a node is alive, so nobody may watch for that.
	if err := c.startServer("kube-controller-manager", "--kubeconfig", c.pathOf("kubeconfig"), "--bind-address", "127.0.0.1", "--secure-port", "0",
		"--controllers", "*,-node-lifecycle-controller", "--service-account-private-key-file", c.pathOf("accounts.key"),
		"--use-service-account-credentials", "--leader-elect=false"); err != nil {
		return err
	}
	return c.startServer("kube-scheduler", "--kubeconfig", c.pathOf("kubeconfig"), "--bind-address", "127.0.0.1", "--secure-port", ports[3],
		"--cert-dir", c.pathOf("certificates-scheduler"), "--leader-elect=false")
}

func (c *Cluster) pathOf(name string) string { return filepath.Join(c.dir, name) }

// startServer starts one of the servers. Its output goes to a log in the cluster's directory.
func (c *Cluster) startServer(name string, args ...string) error {
	log, err := os.Create(c.pathOf(name + ".log"))
	if err != nil {
		return fmt.Errorf("make the log of %s: %w", name, err)
	}
	cmd := exec.Command(filepath.Join(c.programs, name), args...)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	c.servers = append(c.servers, server{name, process, log})
	return nil
}

// writeCredentials writes the key of service accounts, an administrator's token and a kubeconfig with it. It returns the file of the
// token.
func (c *Cluster) writeCredentials(api string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make the key of service accounts: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encode the key of service accounts: %w", err)
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return "", fmt.Errorf("make the administrator's token: %w", err)
	}
	token := hex.EncodeToString(secret)
	for name, text := range map[string]string{
		"accounts.key": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		"tokens":       token + ",admin,admin,system:masters\n",
		"kubeconfig": `apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "` + api + `", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: ` + token + `}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
`,
	} {
		if err := os.WriteFile(c.pathOf(name), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write the cluster's credentials: %w", err)
		}
	}
	return c.pathOf("tokens"), nil
}

// waitReady waits until the API server answers. It has no other way to announce that.
func (c *Cluster) waitReady(ctx context.Context) error {
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for {
		if _, err := c.Kubectl(ctx, "", "get", "--raw", "/readyz"); err == nil {
			return nil
		}
		for _, s := range c.servers {
			select {
			case <-s.process.Done():
				return fmt.Errorf("%s: %w (%s): its log is %s", s.name, child.ErrExited, s.process.State(), s.log.Name())
			default:
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the API server: %w", ctx.Err())
		}
	}
}

// Environ returns the environment of programs that use the cluster as its administrator.
func (c *Cluster) Environ() []string {
	return []string{"KUBECONFIG=" + c.pathOf("kubeconfig"), "HOME=" + c.dir, "PATH=" + c.programs + ":" + os.Getenv("PATH")}
}

// Kubectl runs kubectl with a standard input, and returns its standard output. The error has its standard error.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.programs, "kubectl"), args...)
	cmd.Env = c.Environ()
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Close stops the servers, the last one first, and waits until they have ended. The error wraps child.ErrKilled if one had to be killed.
func (c *Cluster) Close() error {
	var errs []error
	for i := len(c.servers) - 1; i >= 0; i-- {
		s := c.servers[i]
		errs = append(errs, s.process.Stop(stopTimeout), s.log.Close())
	}
	c.servers = nil
	return errors.Join(errs...)
}
