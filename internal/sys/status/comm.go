package status

// WorkerComm names the workers' processes and threads: comm in ps(1), and the tag app in rdma_app and rdma_app_async. The alerts
// about applications leave it out.
const WorkerComm = "rdma-ev-worker"
