package lease_test

const workerEnv = "X"

func worker() int { return 0 }
