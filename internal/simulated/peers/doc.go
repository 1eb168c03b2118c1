// Package peers is the network of simulated hosts: an exchange.Network without a network. What a host answers follows from the world of
// package simulated/devices, so it agrees with what the Fabrics of that world see, in whichever process they are.
package peers
