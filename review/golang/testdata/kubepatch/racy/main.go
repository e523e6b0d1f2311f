// Package racy replaces the list of finalizers by a merge patch without a version.
package racy

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type Claim struct {
	Name       string
	Finalizers []string
}

func (c *Claim) GetName() string { return c.Name }

func (c *Claim) DeepCopy() *Claim { n := *c; return &n }

type Reconciler struct{ client.Client }

func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var claim Claim
	if err := r.Get(ctx, req.NamespacedName, &claim); err != nil {
		return reconcile.Result{}, err
	}
	stored := claim.DeepCopy()
	claim.Finalizers = append(claim.Finalizers, "example.com/node")
	if err := r.Patch(ctx, &claim, client.MergeFrom(stored)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, nil
}
