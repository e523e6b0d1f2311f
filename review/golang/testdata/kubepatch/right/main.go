// Package right sends the version with the patch.
package right

import (
	"context"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type Claim struct {
	Name       string
	Finalizers []string
	Taints     []string
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
	if err := r.Patch(ctx, &claim, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})); err != nil {
		return reconcile.Result{}, err
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var c Claim
		if err := r.Get(ctx, req.NamespacedName, &c); err != nil {
			return err
		}
		c.Taints = append(c.Taints, "gone")
		return r.Update(ctx, &c)
	})
	return reconcile.Result{}, err
}
