package deploy

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// maxFile keeps generated manifests out.
const maxFile = 1 << 20

// ReadDir looks at the deployment files below a folder.
func ReadDir(ctx context.Context, dir string) (*effect.Deployment, error) {
	var out effect.Deployment
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n := d.Name()
		if d.IsDir() {
			if p != dir && (n == "vendor" || n == "node_modules" || n == "testdata" || n == ".git") {
				return filepath.SkipDir
			}
			return nil
		}
		if !candidate(n) {
			return nil
		}
		if i, err := d.Info(); err != nil || i.Size() > maxFile {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			rel = p
		}
		for _, e := range File(filepath.ToSlash(rel), text) {
			take(&out, e)
		}
		return nil
	})
	return &out, err
}

// take keeps the strongest evidence.
func take(out *effect.Deployment, e effect.Deployment) {
	out.Rolling = out.Rolling || e.Rolling
	if e.Isolation != "" {
		out.Isolation = e.Isolation
	}
	if e.Replicas == effect.Many && out.Replicas != effect.Many || out.Replicas != effect.Many && e.Replicas > out.Replicas || out.Evidence == "" && e.Evidence != "" {
		out.Replicas, out.Evidence, out.Pos = e.Replicas, e.Evidence, e.Pos
	}
}

func candidate(name string) bool {
	l := strings.ToLower(name)
	return strings.HasSuffix(l, ".yaml") || strings.HasSuffix(l, ".yml") || l == "procfile" || l == "fly.toml" || l == "app.json" || strings.HasSuffix(l, ".service")
}

// File gives the evidence in one file.
func File(name string, text []byte) []effect.Deployment {
	base := strings.ToLower(filepath.Base(name))
	switch {
	case base == "procfile":
		return nil // names processes, not how many of each
	case base == "fly.toml":
		return lines(name, text, regexp.MustCompile(`^\s*min_machines_running\s*=\s*(\d+)`))
	case base == "app.json":
		return lines(name, text, regexp.MustCompile(`"quantity"\s*:\s*(\d+)`))
	case bytes.Contains(text, []byte("{{")):
		return lines(name, text, regexp.MustCompile(`^\s*(?:replicas|replicaCount|minReplicas|maxReplicas):\s*(\d+)`))
	}
	var out []effect.Deployment
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); err != nil {
			return out // the end, or no YAML: what came before counts
		}
		if len(doc.Content) > 0 {
			out = append(out, document(name, doc.Content[0])...)
		}
	}
}

// lines finds numbers by a pattern, for forms that have no parser here.
func lines(name string, text []byte, re *regexp.Regexp) []effect.Deployment {
	var out []effect.Deployment
	for i, l := range strings.Split(string(text), "\n") {
		if m := re.FindStringSubmatch(l); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil {
				out = append(out, evidence(name, strings.TrimSpace(l), n, i+1))
			}
		}
	}
	return out
}

func evidence(file, text string, n, line int) effect.Deployment {
	return effect.Deployment{Replicas: n, Evidence: file + ": " + text, Pos: effect.Pos{File: file, Line: line}}
}

func document(name string, n *yaml.Node) []effect.Deployment {
	if kind := get(n, "kind"); kind != nil && get(n, "apiVersion") != nil {
		return kubernetes(name, kind.Value, n)
	}
	if s := get(n, "services"); s != nil && s.Kind == yaml.MappingNode {
		return compose(name, s)
	}
	var out []effect.Deployment
	base := strings.ToLower(filepath.Base(name))
	if strings.HasPrefix(base, "values") {
		out = append(out, values(name, n, 0)...)
	}
	return out
}

func kubernetes(name, kind string, n *yaml.Node) []effect.Deployment {
	spec := get(n, "spec")
	switch kind {
	case "Deployment", "StatefulSet", "ReplicaSet", "Rollout":
		var out []effect.Deployment
		if r := get(spec, "replicas"); r != nil {
			if c, err := strconv.Atoi(r.Value); err == nil {
				out = append(out, evidence(name, kind+" replicas: "+r.Value, c, r.Line))
			}
		} else if kind == "Deployment" {
			out = append(out, evidence(name, "Deployment without replicas: 1", 1, n.Line))
		}
		t := get(get(spec, "strategy"), "type")
		if kind == "Deployment" && (t == nil || t.Value != "Recreate") && len(out) > 0 {
			out[0].Rolling = true
		}
		return out
	case "HorizontalPodAutoscaler", "ScaledObject":
		line := n.Line
		for _, k := range []string{"maxReplicas", "maxReplicaCount"} {
			if m := get(spec, k); m != nil {
				if m.Value == "1" {
					return nil
				}
				line = m.Line
			}
		}
		return []effect.Deployment{evidence(name, kind, effect.Many, line)}
	case "DaemonSet":
		return []effect.Deployment{evidence(name, "DaemonSet: one per node", effect.Many, n.Line)}
	}
	return nil
}

func compose(name string, services *yaml.Node) []effect.Deployment {
	var out []effect.Deployment
	for i := 0; i+1 < len(services.Content); i += 2 {
		svc := services.Content[i+1]
		r := get(get(svc, "deploy"), "replicas")
		if r == nil {
			r = get(svc, "scale")
		}
		if r == nil {
			continue
		}
		if c, err := strconv.Atoi(r.Value); err == nil {
			out = append(out, evidence(name, services.Content[i].Value+": "+strconv.Itoa(c)+" replicas", c, r.Line))
		}
	}
	return out
}

// values looks for replica counts in a Helm values file.
func values(name string, n *yaml.Node, depth int) []effect.Deployment {
	if n == nil || n.Kind != yaml.MappingNode || depth > 4 {
		return nil
	}
	var out []effect.Deployment
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch k.Value {
		case "replicas", "replicaCount":
			if c, err := strconv.Atoi(v.Value); err == nil {
				out = append(out, evidence(name, k.Value+": "+v.Value, c, k.Line))
			}
		case "autoscaling":
			if e := get(v, "enabled"); e != nil && e.Value == "true" {
				out = append(out, evidence(name, "autoscaling is enabled", effect.Many, k.Line))
			}
		default:
			out = append(out, values(name, v, depth+1)...)
		}
	}
	return out
}

// get is the value of a key; nil of nil.
func get(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
