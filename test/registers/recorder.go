package registers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

const (
	// registers is how many there are, clients how many each API server has.
	registers, clients = 5, 2
	// value is the key of a ConfigMap's data with the value of the register.
	value = "value"
)

// Options say where registers are.
type Options struct {
	// Name begins the names of the registers: several histories in one namespace have names of their own.
	Name string
	// Servers are the ways to the API servers, one each.
	Servers []*rest.Config
	// Namespace exists and may be written to.
	Namespace string
	// Rate is the number of operations a second of each client, as long as they are answered in time.
	Rate int
}

// Recorder writes and reads registers until it is stopped.
type Recorder struct {
	options Options
	began   time.Time
	stop    context.CancelFunc
	running sync.WaitGroup

	lock    sync.Mutex
	history []Operation
}

// Start makes the registers, by the first API server, and begins to write and to read them.
func Start(ctx context.Context, o Options) (*Recorder, error) {
	var apis []kubernetes.Interface
	for _, server := range o.Servers {
		config := rest.CopyConfig(server)
		config.QPS, config.Timeout = -1, load.Timeout
		api, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("make a client for the registers %s: %w", o.Name, err)
		}
		apis = append(apis, api)
	}
	r := &Recorder{options: o, began: time.Now()}
	for register := range registers {
		if _, err := apis[0].CoreV1().ConfigMaps(o.Namespace).Create(ctx, r.object(register, ""), metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("make register %s: %w", r.name(register), err)
		}
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	for client := range len(apis) * clients {
		r.running.Go(func() { r.run(working, apis[client/clients], client) })
	}
	return r, nil
}

// Stop ends it, and waits for what is under way. It returns the whole history.
func (r *Recorder) Stop() []Operation {
	r.stop()
	r.running.Wait()
	return r.History()
}

// History is what was done until now.
func (r *Recorder) History() []Operation {
	r.lock.Lock()
	defer r.lock.Unlock()
	return append([]Operation(nil), r.history...)
}

// run is one client: it does one operation after the other, without haste.
func (r *Recorder) run(ctx context.Context, api kubernetes.Interface, client int) {
	ticker := time.NewTicker(time.Second / time.Duration(r.options.Rate))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		o := Operation{Register: rand.IntN(registers), Client: client, Write: rand.IntN(2) == 0} //nolint:gosec // No secret.
		if o.Write {
			o.Value = fmt.Sprintf("%d of client %d", i, client)
		}
		r.do(context.WithoutCancel(ctx), api, o)
	}
}

// do does one operation, and notes what came of it.
func (r *Recorder) do(ctx context.Context, api kubernetes.Interface, o Operation) {
	o.Called = time.Since(r.began)
	var err error
	if o.Write {
		err = r.write(ctx, api, o)
	} else {
		o.Value, err = r.read(ctx, api, o.Register)
	}
	o.Returned = time.Since(r.began)
	if o.Open = err != nil; o.Open && (!o.Write || refused(err)) {
		return
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.history = append(r.history, o)
}

// write writes whatever the register has. client-go would send a write again that was answered with an error, and it would happen
// twice: this one is sent once.
func (r *Recorder) write(ctx context.Context, api kubernetes.Interface, o Operation) error {
	return api.CoreV1().RESTClient().Put().Namespace(r.options.Namespace).Resource("configmaps").Name(r.name(o.Register)).
		Body(r.object(o.Register, o.Value)).MaxRetries(0).Do(ctx).Error()
}

// read asks for the newest: without a resource version an API server reads from etcd, with a quorum.
func (r *Recorder) read(ctx context.Context, api kubernetes.Interface, register int) (string, error) {
	found, err := api.CoreV1().ConfigMaps(r.options.Namespace).Get(ctx, r.name(register), metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return found.Data[value], nil
}

func (r *Recorder) name(register int) string { return fmt.Sprintf("%s-%d", r.options.Name, register) }

func (r *Recorder) object(register int, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: r.name(register)}, Data: map[string]string{value: text}}
}

// refused tells whether a request failed before it was sent, as there was no connection.
func refused(err error) bool {
	operation := (*net.OpError)(nil)
	return errors.As(err, &operation) && operation.Op == "dial"
}
