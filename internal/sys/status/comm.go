package status

// WorkerComm is the name of the workers' processes and threads: comm in ps(1), and the tag app in rdma_app and rdma_app_async.
// The alerts about applications exclude it.
const WorkerComm = "rdma-ev-worker"
