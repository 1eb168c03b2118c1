// Prints the frequency of this machine's time stamp counter in kHz, measured with CLOCK_MONOTONIC.
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct reading {
	int64_t ns;
	uint64_t ticks;
};

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// Returns the closest of many pairs of readings, because the process may lose its processor between the two.
static struct reading read_both(void)
{
	struct reading best = { 0 };
	int64_t least = INT64_MAX;
	for (int i = 0; i < 1000; i++) {
		int64_t before = now();
		uint64_t ticks = __rdtsc();
		int64_t took = now() - before;
		if (took < least) {
			least = took;
			best = (struct reading){ before + took / 2, ticks };
		}
	}
	return best;
}

int main(void)
{
	struct reading first = read_both();
	nanosleep(&(struct timespec){ .tv_nsec = 100 * 1000 * 1000 }, NULL);
	struct reading last = read_both();
	double khz = (double)(last.ticks - first.ticks) * 1e6 / (double)(last.ns - first.ns);
	printf("%.0f\n", khz);
	return 0;
}
