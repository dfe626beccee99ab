/* A log of records, each durable before the next one is written: log FILE COUNT. It is read back and compared. */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <terrace.h>
#include <time.h>

static void fail(void)
{
	fprintf(stderr, "log: %s\n", terrace_last_error());
	exit(1);
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: log FILE COUNT\n");
		return 2;
	}
	long count = atol(argv[2]);
	terrace_file *log = terrace_open(argv[1], O_RDWR | O_CREAT, 0644);
	if (log == NULL)
		fail();

	off_t first = terrace_size(log);
	if (first < 0)
		fail();
	char record[64], read[64];
	double begin = seconds();
	for (long i = 0; i < count; i++) {
		memset(record, '.', sizeof record);
		record[snprintf(record, sizeof record, "record %ld", i)] = ' ';
		record[sizeof record - 1] = '\n';
		off_t at;
		if (terrace_append(log, record, sizeof record, &at) < 0 || terrace_sync(log) < 0)
			fail();
		if (at != first + (off_t)(i * (long)sizeof record)) {
			fprintf(stderr, "log: %s: somebody else appends to it\n", argv[1]);
			return 1;
		}
	}
	double took = seconds() - begin;

	for (long i = 0; i < count; i++) {
		memset(record, '.', sizeof record);
		record[snprintf(record, sizeof record, "record %ld", i)] = ' ';
		record[sizeof record - 1] = '\n';
		off_t at = first + (off_t)(i * (long)sizeof record);
		ssize_t n = terrace_pread(log, read, sizeof read, at);
		if (n < 0)
			fail();
		if (n != (ssize_t)sizeof read || memcmp(record, read, sizeof record) != 0) {
			fprintf(stderr, "log: %s: record %ld is not as it was written\n", argv[1], i);
			return 1;
		}
	}

	struct terrace_usage usage;
	if (terrace_usage(log, &usage) < 0)
		fail();
	printf("%.0f records per second\n", (double)count / took);
	printf("%" PRIu64 " calls went direct, %" PRIu64 " took the mount", usage.direct_calls, usage.mount_calls);
	printf(usage.why[0] == '\0' ? "\n" : " (%s)\n", usage.why);
	if (terrace_close(log) < 0)
		fail();
	return 0;
}
