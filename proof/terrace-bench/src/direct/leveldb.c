/* Puts values of 100 bytes under random keys of 16 into a new database of LevelDB, each with a sync:
 * leveldb DIRECTORY COUNT. Prints the seconds that it took. */

#include <inttypes.h>
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static void must(const char *what, char *error)
{
	if (error == NULL)
		return;
	fprintf(stderr, "%s: %s\n", what, error);
	exit(1);
}

int main(int argc, char **argv)
{
	char key[17], value[100], *error = NULL;
	uint64_t random = 88172645463325252;
	leveldb_options_t *options = leveldb_options_create();
	leveldb_writeoptions_t *synced = leveldb_writeoptions_create();
	leveldb_t *database;
	double start;
	long i, count;

	if (argc != 3) {
		fprintf(stderr, "usage: %s DIRECTORY COUNT\n", argv[0]);
		return 1;
	}
	count = atol(argv[2]);
	memset(value, 'x', sizeof(value));
	leveldb_options_set_create_if_missing(options, 1);
	leveldb_options_set_error_if_exists(options, 1);
	leveldb_options_set_compression(options, leveldb_no_compression);
	leveldb_writeoptions_set_sync(synced, 1);
	database = leveldb_open(options, argv[1], &error);
	must("opening", error);
	start = now();
	for (i = 0; i < count; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		snprintf(key, sizeof(key), "%016" PRIu64, random % count);
		leveldb_put(database, synced, key, 16, value, sizeof(value), &error);
		must("putting", error);
	}
	printf("%.9f\n", now() - start);
	leveldb_close(database);
	return 0;
}
