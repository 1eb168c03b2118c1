#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "standin.h"

// Old kernels refuse a destroy after a removal. An environment variable
// (RDMAV_ALLOW_DISASSOC_DESTROY) makes the library treat that as success: it then
// frees the object without waiting until its events are acknowledged.
int disassociated(void)
{
	return control->removed && control->closed_again;
}

// After a removal, poll on the completion channel returns POLLERR and read returns EIO,
// and the asynchronous queue ends with DEVICE_FATAL. The write end of a pipe without a
// reader returns POLLERR alone.
void remove_device(void)
{
	uint32_t fatal[4] = { 0, 0, IBV_EVENT_DEVICE_FATAL, 0 };
	int fds[2], i;

	control->removed = 1;
	for (i = 0; i < 16; i++) {
		if (!channels[i])
			continue;
		if (pipe2(fds, O_CLOEXEC))
			abort();
		close(((struct standin_channel *)channels[i])->write_end);
		((struct standin_channel *)channels[i])->write_end = -1;
		close(fds[0]);
		dup2(fds[1], channels[i]->fd);
		close(fds[1]);
	}
	if (write(control->async_write, fatal, sizeof fatal) < 0)
		abort();
}
