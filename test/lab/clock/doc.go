// Package clock has the clock of one process be wrong, and no other's. A static Go program asks no library for the time that could be
// preloaded, and time namespaces leave the time of day as it is: where the program's runtime has the address of the function of
// the vDSO that tells the time, it gets that of another function, which is put in the place of one that Go never calls. What the
// program measures by the monotonic clock, as its timers, stays right, as on a machine whose clock is wrong.
package clock
