// Package model is a model of a fabric with faults planted in it: which packets get lost on which paths between hosts, which
// verdicts the hosts reach within a minute, by internal/fabric/verdict, and which network interfaces and groups a question to the
// database then suspects. The lines of all hosts go into real databases, which are to suspect the same. It is our own model, and
// says nothing of other systems. Faults and seeds were fixed before the code of the verdicts was written.
package model
