// Package reconcile is a stub for type-checking test data.
package reconcile

import "sigs.k8s.io/controller-runtime/pkg/client"

type Request struct{ NamespacedName client.ObjectKey }

type Result struct{ Requeue bool }
