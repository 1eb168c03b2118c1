#include <unistd.h>

#include "standin.h"

static __thread int before; // errno as set by the caller

int refused(enum call call, int32_t err)
{
	if (!err)
		return 0;
	__atomic_fetch_sub(&control->calls[call], 1, __ATOMIC_RELAXED);
	errno = err == SILENTLY ? before : err;
	return 1;
}

int answer(enum call call)
{
	int command = control->provider.commands >> call & 1, err = 0;

	before = errno;
	if (command && control->command_us)
		usleep(control->command_us);
	if (control->removed)
		err = call >= C_QUERY_DEVICE && call <= C_MODIFY_QP ? EIO
								    : 0; // the kernel answers, not the device
	else if (command && control->dead)
		err = call >= C_DESTROY_QP ? control->provider.dead_destroy : control->provider.dead_command;
	// The real library leaves this errno behind when it succeeds.
	errno = err ? err : ENOTTY;
	return err;
}
