package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/review/effect"
)

func TestFile(t *testing.T) {
	for _, c := range []struct {
		name, text string
		replicas   int
		rolling    bool
		line       int
	}{
		{"k8s/app.yaml", "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 3\n", 3, true, 4},
		{"k8s/app.yaml", "apiVersion: apps/v1\nkind: Deployment\nspec:\n  strategy: {type: Recreate}\n", 1, false, 1},
		{"k8s/db.yaml", "a: 1\n---\napiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: 2}\n", 2, false, 5},
		{"hpa.yml", "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec:\n  maxReplicas: 9\n", effect.Many, false, 4},
		{"hpa.yml", "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec:\n  maxReplicas: 1\n", 0, false, 0},
		{"docker-compose.yml", "services:\n  db: {image: x}\n  web:\n    deploy:\n      replicas: 4\n", 4, false, 5},
		{"compose.yaml", "services:\n  web:\n    image: x\n", 0, false, 0},
		{"chart/values.yaml", "app:\n  replicaCount: 2\n", 2, false, 2},
		{"chart/values.yaml", "autoscaling:\n  enabled: true\n", effect.Many, false, 1},
		{"chart/templates/d.yaml", "spec:\n  replicas: {{ .Values.n }}\n---\nspec:\n  replicas: 2\n", 2, false, 5},
		{"fly.toml", "[http_service]\n  min_machines_running = 2\n", 2, false, 2},
		{"ci.yml", "replicas: 7\n", 0, false, 0},
	} {
		var got effect.Deployment
		for _, e := range File(c.name, []byte(c.text)) {
			take(&got, e)
		}
		if got.Replicas != c.replicas || got.Rolling != c.rolling || got.Pos.Line != c.line {
			t.Errorf("%s %q: %+v", c.name, c.text, got)
		}
	}
}

func TestReadDirTakesTheLargest(t *testing.T) {
	dir := t.TempDir()
	for n, text := range map[string]string{
		"a.yaml":            "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 1}\n",
		"b.yaml":            "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 2}\n",
		"vendor/v/c.yaml":   "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 9}\n",
		"broken.yaml":       "a: [\n",
		"values-small.yaml": "replicaCount: 1\n",
	} {
		p := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := ReadDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if d.Replicas != 2 || !d.Rolling || d.Pos.File != "b.yaml" {
		t.Errorf("%+v", d)
	}
}
