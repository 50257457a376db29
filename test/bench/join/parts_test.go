package main

import (
	"slices"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

func TestPartsAreThoseOfTheMachineWithTheLongest(t *testing.T) {
	var all parts
	all.add(40*time.Second, software.Took{DownloadSeconds: 20, UnpackSeconds: 1, CheckSeconds: 2.5}, 6*time.Second)
	all.add(35*time.Second, software.Took{DownloadSeconds: 5, UnpackSeconds: 3, CheckSeconds: 1}, 7*time.Second)
	if want := (parts{download: 20 * time.Second, unpack: 3 * time.Second, check: 2500 * time.Millisecond, images: 7 * time.Second, rest: 23 * time.Second}); all != want {
		t.Errorf("got %+v, want %+v", all, want)
	}
	var names []string
	for _, figure := range all.figures("join_2_software_", 40*time.Second) {
		names = append(names, figure.Name)
	}
	if want := []string{
		"join_2_software_seconds", "join_2_software_download_seconds", "join_2_software_unpack_seconds", "join_2_software_check_seconds",
		"join_2_software_images_seconds", "join_2_software_rest_seconds",
	}; !slices.Equal(names, want) {
		t.Errorf("figures %q, want %q", names, want)
	}
}
