// Package witness keeps the credentials that clients show to a server of an attacker.
package witness

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// CoreManager is the name by which Cluster API's core manager calls itself in its requests.
const CoreManager = "cluster-api-controller-manager"

// Credentials counts the credentials that clients showed. As a handler it forbids every request.
type Credentials struct {
	lock  sync.Mutex
	times map[shown]int
}

type shown struct{ client, credential string }

// ServeHTTP implements http.Handler.
func (c *Credentials) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.times == nil {
		c.times = map[shown]int{}
	}
	// A manager of Cluster API says its program, and its own name after that.
	client := append(strings.Fields(r.UserAgent()), "", "")[1]
	c.times[shown{client, r.Header.Get("Authorization")}]++
	w.WriteHeader(http.StatusForbidden)
}

// Count is how often a client showed a credential.
func (c *Credentials) Count(client, credential string) int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.times[shown{client, credential}]
}

// Besides lists the clients that showed another credential than this one, each with the beginning of what it showed.
func (c *Credentials) Besides(credential string) (list []string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for one := range c.times {
		if one.credential != credential {
			list = append(list, fmt.Sprintf("%s showed %.20q", one.client, one.credential))
		}
	}
	slices.Sort(list)
	return list
}
