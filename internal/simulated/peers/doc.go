// Package sim is the network of simulated hosts: a hello.Network without a network. What a host answers follows from the world of
// package verbs/sim, so it agrees with what the Fabrics of that world see, in whichever process they are.
package peers
