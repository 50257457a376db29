// Command hello is what quickstart runs in a tenant: a web server that says its name, and a client that
// asks one by the name of its Service.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(ctx, args[1])
	case len(args) == 2 && args[0] == "ask":
		return ask(ctx, args[1], os.Stdout)
	case len(args) == 3 && args[0] == "ask":
		long, err := time.ParseDuration(args[2])
		if err != nil {
			return fmt.Errorf("how long to ask: %w", err)
		}
		return askOn(ctx, args[1], long)
	}
	return errors.New("usage: hello serve ADDRESS | hello ask URL [DURATION]")
}

// serve answers every request with the name of this host, until the context ends.
func serve(ctx context.Context, address string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr: address, ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "hello from", name) }),
	}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ask writes the answer of a URL.
func ask(ctx context.Context, url string, answer io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Close = true // each time the name is looked up, and a Service chooses a server
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, response.Status)
	}
	_, err = io.Copy(answer, response.Body)
	return err
}

// askOn asks again and again, 20 times a second where answers are quick, and prints how many failed.
func askOn(ctx context.Context, url string, long time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	ticker := time.NewTicker(time.Second / 20)
	defer ticker.Stop()
	asked, failed := 0, 0
	for {
		select {
		case <-ctx.Done():
			fmt.Printf("%d requests, %d failed\n", asked, failed)
			return nil
		case <-ticker.C:
		}
		err := ask(context.WithoutCancel(ctx), url, io.Discard)
		asked++
		if err != nil {
			failed++
			fmt.Println(err)
		}
	}
}
