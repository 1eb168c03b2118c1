// The reading of a snapshot is compared with this program. It is the shortest C
// program that reads the same files: each is opened, read once and closed.
//
//   filesread ROUNDS FILE...    reads all files ROUNDS times and prints
//                               "read FILES p50 NS", the median of a round
//
// A file that cannot be opened or read counts like the others.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static void read_file(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text)) < 0 && errno == EBADF) {
		perror(path);
		exit(1);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[1]) : 0;
	int64_t *took;

	if (rounds < 1) {
		fputs("usage: filesread ROUNDS FILE...\n", stderr);
		return 2;
	}
	took = calloc(rounds, sizeof(*took));
	if (!took)
		return 1;
	for (int i = 0; i < rounds; i++) {
		int64_t began = now();

		for (int n = 2; n < argc; n++)
			read_file(argv[n]);
		took[i] = now() - began;
	}
	qsort(took, rounds, sizeof(*took), compare);
	printf("read %d p50 %lld\n", argc - 2, (long long)took[rounds / 2]);
	return 0;
}
