package main

import (
	"net"
	"net/netip"
	"testing"
)

func TestEveryWorkerHasAnAddressOfItsOwn(t *testing.T) {
	seen := map[string]int{}
	for i := range mostWorkers {
		address := workerAddress(i, 6443)
		if other, ok := seen[address]; ok {
			t.Fatalf("workers %d and %d are both at %s", other, i, address)
		}
		seen[address] = i
		if !netip.MustParseAddrPort(address).Addr().IsLoopback() {
			t.Fatalf("worker %d is at %s", i, address)
		}
	}
}

func TestOpenAndAcceptedConnectionsAreThoseOfTheKernel(t *testing.T) {
	// Nobody else is at this address.
	hosts := netip.MustParsePrefix("127.98.76.54/32")
	listener, err := net.Listen("tcp", netip.AddrPortFrom(hosts.Addr(), 6443).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	before, err := readNetwork(hosts)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		connection, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = accepted.Close() })
	}
	after, err := readNetwork(hosts)
	if err != nil {
		t.Fatal(err)
	}
	if before.open != 0 || after.open != 3 {
		t.Errorf("%d connections are open before there are any, and %d when there are 3", before.open, after.open)
	}
	if accepted := after.accepted - before.accepted; accepted < 3 {
		t.Errorf("%d of 3 connections were accepted", accepted)
	}
}
