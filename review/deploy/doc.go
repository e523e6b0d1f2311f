// Package deploy reads from deployment files how many processes of a service run
// at once.
//
// # Model
//
// Evidence is a line in a file: `replicas: 3` of a Kubernetes Deployment or a
// Helm values file, `deploy.replicas` or `scale` of a compose service, an
// autoscaler, a Procfile or fly/Heroku-style process count. The largest number
// found counts: one service with several processes is enough for a lock in memory
// to be no lock. A Kubernetes Deployment without a strategy rolls: for a moment
// two processes run even with one replica.
//
// # Promise and limits
//
// No file, or no number in it, is "unknown" (0), not "one". Templates (`{{ ... }}`)
// are read line by line, because they are not YAML before they are rendered.
// StatefulSets and Recreate strategies do not overlap.
package deploy
