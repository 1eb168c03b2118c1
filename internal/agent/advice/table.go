package advice

// Command identifies a command of the table.
type Command int

// The commands that only show something.
const (
	ShowKernelLog Command = iota
	ShowKernelLogOf
	ReadKernelLog
	ShowCards
	ShowPCIeLinks
	ShowNamespaces
	ShowLinks
	ShowRDMALinks
	ShowDeviceDetails
	ShowLink
	ShowAddresses
	ShowTransceiver
	ShowErrorCorrection
	ShowBond
	ShowDriverCounters
	ShowModuleState
	ShowPort
	ShowPortSettings
	ShowSubnetManager
	ShowSubnetManagerOf
	ShowPKeys
	ShowRoCE
	ShowHealth
	ShowHealthOf
	ShowInterrupts
	ShowQueuePairs
	ShowStack
	ShowCapabilities
	ShowKernelTypes
	ShowModuleFile
	ShowLockdown
	ShowUnit
	ShowDisk
	ShowListener
	ShowOpenFiles
	ShowCgroupLimits
	ShowLibrary
	Diagnose
	TryHardware
	WriteReport
	DiagnoseApplications
	DiagnosePeer
	CheckConfig
	LearnExpected
	ExplainAlert
	ShowEvents
	ShowEventsOf
	ShowState
	ShowFabric
	ShowFabricOf
	ShowDemo
	TryTracer
	TryLimit

	// EditFile and the commands after it change something.
	EditFile
	InstallOnDebian
	InstallOnFedora
	InstallOnSUSE
	LoadVerbs
	LoadDriver
	MakeNode
	MakeNodes
	GiveNodes
	AllowNodes
	OpenNode
	BringUp
	ReleaseDevices
	ResumeDevices
	Forget
	RaiseLimit
	ShareUsers
	LiftCgroupLimit
	InstallWorker
	TrustWorker
	LetWorkerRun
	MakeRecords
	CloseRecords
	InstallTracer
	GiveCapabilities
	GivePackagedCapabilities
	TrustTracer
	TrustPackagedTracer
	GiveContainerCapabilities
	LetListBeRead
	GiveSecret
	InstallKey
	MakeKey
	InstallCertificate
	ReloadDevice
	Debug
	KillProcess
	commands
)

// Risks that several rows share.
const (
	replacesLibraries = "can replace libraries of a vendor's drivers: read what it would install"
	opensToAll        = "lets every user of the host open the device"
	givesAllDevices   = "gives the container all RDMA devices of the host"
	givesTracer       = "lets the group telegraf see what the processes of all users do"
	trustsFile        = "trusts a file that another user may have changed: install it anew if you do not know"
)

// commandTable returns the rows, by command.
func commandTable() []Row {
	const drop = "/etc/systemd/system/telegraf.service.d"
	const caps = "chgrp telegraf {file} && chmod 0750 {file} && setcap {capabilities}=ep {file}"
	const packaged = "echo {capabilities}=ep >{list} && rdma-events-tracer-caps"
	rows := [commands]Row{
		ShowKernelLog:        {Form: "dmesg | tail", Root: true},
		ShowKernelLogOf:      {Form: "dmesg | grep {word}", Root: true},
		ReadKernelLog:        {Form: "dmesg", Root: true},
		ShowCards:            {Form: "lspci -nn"},
		ShowPCIeLinks:        {Form: "lspci -vv", Root: true},
		ShowNamespaces:       {Form: "ip -all netns exec rdma dev", Root: true},
		ShowLinks:            {Form: "ip link"},
		ShowRDMALinks:        {Form: "rdma link"},
		ShowDeviceDetails:    {Form: "rdma -d dev"},
		ShowLink:             {Form: "ethtool {netdev}", Root: true},
		ShowAddresses:        {Form: "ip address show dev {netdev}"},
		ShowTransceiver:      {Form: "ethtool -m", Root: true},
		ShowErrorCorrection:  {Form: "ethtool -I --show-fec", Root: true},
		ShowBond:             {Form: "cat /proc/net/bonding/{netdev}"},
		ShowDriverCounters:   {Form: "ethtool -S"},
		ShowModuleState:      {Form: "mlxlink", Root: true},
		ShowPort:             {Form: "ibstat {device} {port}"},
		ShowPortSettings:     {Form: "ibportstate -C {device} -P {port} -D 0 {port} query", Root: true},
		ShowSubnetManager:    {Form: "sminfo", Root: true},
		ShowSubnetManagerOf:  {Form: "sminfo -C {device} -P {port}", Root: true},
		ShowPKeys:            {Form: "grep . {directory}/pkeys/*"},
		ShowRoCE:             {Form: "devlink dev param show pci/{address} name enable_roce", Root: true},
		ShowHealth:           {Form: "devlink health show", Root: true},
		ShowHealthOf:         {Form: "devlink health show pci/{address}", Root: true},
		ShowInterrupts:       {Form: "grep -e {device} /proc/interrupts"},
		ShowQueuePairs:       {Form: "rdma resource show qp"},
		ShowStack:            {Form: "cat /proc/PID/stack", Root: true},
		ShowCapabilities:     {Form: "getcap"},
		ShowKernelTypes:      {Form: "grep CONFIG_DEBUG_INFO_BTF= /boot/config-{release}"},
		ShowModuleFile:       {Form: "modinfo -F filename ib_uverbs"},
		ShowLockdown:         {Form: "cat /sys/kernel/security/lockdown", Root: true},
		ShowUnit:             {Form: "systemctl cat telegraf"},
		ShowDisk:             {Form: "df /var/lib/rdma_events"},
		ShowListener:         {Form: "ss -ltnp sport = :{port}", Root: true},
		ShowOpenFiles:        {Form: "lsof /dev/infiniband/*", Root: true},
		ShowCgroupLimits:     {Form: "grep . /sys/fs/cgroup/system.slice/telegraf.service/rdma.max"},
		ShowLibrary:          {Form: "rdma-events-worker -library"},
		Diagnose:             {Form: "rdma-events doctor"},
		TryHardware:          {Form: "rdma-events doctor -hardware"}, // asks before it changes a device
		WriteReport:          {Form: "rdma-events report"},
		DiagnoseApplications: {Form: "-u telegraf rdma-events doctor -applications"},
		DiagnosePeer:         {Form: "ssh {host} sudo -u telegraf rdma-events doctor -config {file}"},
		CheckConfig:          {Form: "rdma-events check -config /etc/telegraf/rdma_events.conf"},
		LearnExpected:        {Form: "rdma-events check -learn"},
		ExplainAlert:         {Form: "rdma-events explain {alert}"},
		ShowEvents:           {Form: "rdma-events events"},
		ShowEventsOf:         {Form: "rdma-events events -device {device}", Root: true},
		ShowState:            {Form: "rdma-events status"},
		ShowFabric:           {Form: "rdma-events fabric"},
		ShowFabricOf:         {Form: "-u telegraf rdma-events fabric -config /etc/telegraf/rdma_events.conf"},
		ShowDemo:             {Form: "rdma-events watch -demo"},
		TryTracer:            {Form: "{program} -try", Root: true},
		TryLimit:             {Form: "prlimit --memlock=65536:65536 rdma-events doctor"},

		EditFile:        {Form: "sudoedit {file}", Changes: true},
		InstallOnDebian: {Form: "apt-get install libibverbs1 ibverbs-providers", Root: true, Changes: true, Risk: replacesLibraries},
		InstallOnFedora: {Form: "dnf install libibverbs", Root: true, Changes: true, Risk: replacesLibraries}, // includes the providers
		InstallOnSUSE:   {Form: "zypper install libibverbs1 libibverbs", Root: true, Changes: true, Risk: replacesLibraries},
		LoadVerbs:       {Form: "modprobe ib_uverbs", Root: true, Changes: true},
		LoadDriver:      {Form: "modprobe {module}", Root: true, Changes: true, Risk: "creates devices for all cards that the module supports"},
		MakeNode: {
			Form: "mkdir -p /dev/infiniband && mknod -m 0666 /dev/infiniband/{node} c {major} {minor}",
			Root: true, Changes: true, Risk: opensToAll,
		},
		MakeNodes:  {Form: "udevadm trigger --action=add --subsystem-match=infiniband_verbs", Root: true, Changes: true},
		GiveNodes:  {Form: "docker run --device /dev/infiniband IMAGE", Changes: true, Risk: givesAllDevices},
		AllowNodes: {Form: "docker run --device /dev/infiniband --device-cgroup-rule 'c 231:* rw' IMAGE", Changes: true, Risk: givesAllDevices},
		OpenNode:   {Form: "chmod 0666 {node}", Root: true, Changes: true, Risk: opensToAll},
		BringUp: {
			Form: "ip link set dev {netdev} up", Root: true, Changes: true,
			Risk: "connects the host to the network of that port: if it is down on purpose, add it to expected_down instead",
		},
		ReleaseDevices: {Form: "rdma-events release", Root: true, Changes: true},
		ResumeDevices:  {Form: "rdma-events resume", Root: true, Changes: true},
		Forget:         {Form: "rdma-events forget {port}", Root: true, Changes: true},
		RaiseLimit: {
			Form: "mkdir -p " + drop + ` && printf '[Service]\n{limit...}\n' >` + drop + "/rdma_events-limits.conf && " +
				"systemctl daemon-reload && systemctl restart telegraf",
			Root: true, Changes: true, Risk: "restarts Telegraf, with all of its inputs",
		},
		ShareUsers:      {Form: "docker run --userns=host IMAGE", Changes: true, Risk: "makes root in the container the same user as root on the host"},
		LiftCgroupLimit: {Form: "echo '{device} {resource}=max' >{file}", Root: true, Changes: true, Risk: "lifts the limit for all processes of the cgroup"},
		InstallWorker:   {Form: "install -m 0755 build/rdma-events-worker {directory}", Root: true, Changes: true},
		TrustWorker:     {Form: "chown root: {file} && chmod 0755 {file}", Root: true, Changes: true, Risk: trustsFile},
		LetWorkerRun:    {Form: "chmod 0755 {file}", Root: true, Changes: true},
		MakeRecords:     {Form: "install -d -m 0700 -o telegraf {directory}", Root: true, Changes: true},
		CloseRecords:    {Form: "chmod 0700 {directory}", Root: true, Changes: true},
		InstallTracer: {
			Form: "install -m 0750 -g telegraf build/rdma-events-tracer {directory} && setcap {capabilities}=ep {directory}/rdma-events-tracer",
			Root: true, Changes: true, Risk: givesTracer,
		},
		GiveCapabilities:          {Form: caps, Root: true, Changes: true, Risk: givesTracer},
		GivePackagedCapabilities:  {Form: packaged, Root: true, Changes: true, Risk: givesTracer},
		TrustTracer:               {Form: "chown root {file} && " + caps, Root: true, Changes: true, Risk: trustsFile},
		TrustPackagedTracer:       {Form: "chown root {file} && " + packaged, Root: true, Changes: true, Risk: trustsFile},
		GiveContainerCapabilities: {Form: "docker run --pid=host {capabilities...} IMAGE", Changes: true, Risk: "lets the container see all processes of the host"},
		LetListBeRead:             {Form: "chmod 0644 {file}", Root: true, Changes: true},
		GiveSecret:                {Form: "chgrp telegraf {file} && chmod 0640 {file}", Root: true, Changes: true},
		InstallKey:                {Form: "install -m 0640 -g telegraf NEW.key {file}", Root: true, Changes: true},
		MakeKey:                   {Form: "head -c 32 /dev/urandom >{file}", Root: true, Changes: true, Risk: "makes a key that hosts without it refuse"},
		InstallCertificate:        {Form: "install -m 0644 NEW.pem {file}", Root: true, Changes: true},
		ReloadDevice:              {Form: "devlink dev reload", Root: true, Changes: true, Risk: "ends the connections of all applications on the device"},
		Debug:                     {Form: "gdb -p PID", Root: true, Changes: true, Risk: "stops the process while it is attached, so that its job may fail"},
		KillProcess:               {Form: "kill -9 PID", Root: true, Changes: true, Risk: "ends the process and, as a rule, its job"},
	}
	return rows[:]
}
