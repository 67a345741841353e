package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A backup of a running node, restored, is a cluster of its own that another node can
// join, with the data of then.
func TestBackupAndRestore(t *testing.T) {
	n1 := member(t, t.TempDir(), "n1", nil)
	must(t, "", "topic", "create", "words", "-p", "1", "-b", n1.kafka)
	must(t, "one\ntwo\n", "pub", "words", "-b", n1.kafka)
	dir := t.TempDir()
	backup, data := filepath.Join(dir, "backup"), filepath.Join(dir, "data")
	out := must(t, "", "cluster", "backup", "--to", backup, "-n", n1.node)
	old := n1.clusterInfo(t).ClusterID
	if !strings.Contains(out, "backup of cluster "+old+" in "+backup) {
		t.Error(out)
	}
	must(t, "three\n", "pub", "words", "-b", n1.kafka)
	out = must(t, "", "cluster", "restore", "--from", backup, "--data-dir", data, "--node-id", "n1")
	if !strings.Contains(out, "polylog serve --data-dir "+data) {
		t.Error(out)
	}
	must(t, "", "check", "--data-dir", data)
	r := member(t, data, "n1", nil)
	if i := r.clusterInfo(t); i.ClusterID == old || len(i.Members) != 1 || i.Members[0].Addr != r.node {
		t.Errorf("%+v", i)
	}
	must(t, "four\n", "pub", "words", "-b", r.kafka)
	if out := must(t, "", "sub", "words", "--from", "start", "-n", "3", "-b", r.kafka); out != "one\ntwo\nfour\n" {
		t.Errorf("%q", out)
	}
	r2 := member(t, t.TempDir(), "n2", r)
	r2.voters(t, "n1", "n2")
	if out := must(t, "", "sub", "words", "--from", "start", "-n", "3", "-b", r2.kafka); out != "one\ntwo\nfour\n" {
		t.Errorf("%q", out)
	}

	for want, args := range map[string][]string{
		"is not empty":               {"cluster", "backup", "--to", backup, "-n", n1.node},
		"is in use by":               {"cluster", "restore", "--from", backup, "--data-dir", data},
		"is not a backup":            {"cluster", "restore", "--from", dir, "--data-dir", filepath.Join(dir, "x")},
		"no answer from 127.0.0.1:1": {"cluster", "backup", "--to", filepath.Join(dir, "y"), "-n", "127.0.0.1:1"},
		"--to is missing":            {"cluster", "backup"},
		"--from is missing":          {"cluster", "restore"},
	} {
		code, _, errs := call(t, "", args...)
		if code == exitOK || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("polylog %s: %d, %q, want %q", strings.Join(args, " "), code, errs, want)
		}
	}
}
