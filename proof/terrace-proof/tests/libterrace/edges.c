/* Calls at the edges, as a program in C makes them: edges FILE. It prints what is wrong. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <terrace.h>
#include <unistd.h>

#define RECORDS 500

static int failures;

#define CHECK(what)                                                                             \
	do {                                                                                    \
		if (!(what)) {                                                                  \
			printf("line %d: %s; errno %d, %s\n", __LINE__, #what, errno,           \
			       terrace_last_error());                                           \
			failures++;                                                             \
		}                                                                               \
	} while (0)
#define FAILS(call, number) CHECK((errno = 0, (call) == -1) && errno == (number))

static void arguments(const char *path)
{
	char name[5000], byte = 'a';
	struct terrace_usage usage;
	CHECK(strcmp(terrace_last_error(), "") == 0);
	CHECK(terrace_open(NULL, O_RDONLY, 0) == NULL && errno == EINVAL);
	CHECK(terrace_open("/nowhere/at/all", O_RDONLY, 0) == NULL && errno == ENOENT);
	CHECK(strstr(terrace_last_error(), "/nowhere/at/all: open: ") != NULL);
	CHECK(terrace_open("", O_RDONLY, 0) == NULL && errno == ENOENT);
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	CHECK(terrace_open(name, O_RDONLY, 0) == NULL && errno == ENAMETOOLONG);
	CHECK(terrace_open(path, O_RDWR | O_CREAT | O_APPEND, 0600) == NULL && errno == EINVAL);
	FAILS(terrace_pread(NULL, &byte, 1, 0), EINVAL);
	FAILS(terrace_close(NULL), EINVAL);

	terrace_file *file = terrace_open(path, O_RDWR | O_CREAT, 0600);
	CHECK(file != NULL);
	FAILS(terrace_pread(file, &byte, 1, -1), EINVAL);
	FAILS(terrace_pwrite(file, &byte, 1, -1), EINVAL);
	FAILS(terrace_truncate(file, -1), EINVAL);
	FAILS(terrace_pwrite(file, NULL, 1, 0), EFAULT);
	FAILS(terrace_usage(file, NULL), EINVAL);
	CHECK(terrace_pwrite(file, NULL, 0, 0) == 0);
	CHECK(terrace_size(file) == 0);
	CHECK(terrace_close(file) == 0);

	file = terrace_open(path, O_RDONLY, 0);
	CHECK(file != NULL);
	FAILS(terrace_pwrite(file, &byte, 1, 0), EBADF);
	FAILS(terrace_append(file, &byte, 1, NULL), EBADF);
	FAILS(terrace_truncate(file, 0), EINVAL);
	CHECK(terrace_pread(file, &byte, 1, 0) == 0);
	CHECK(terrace_usage(file, &usage) == 0 && usage.direct_calls + usage.mount_calls == 1);
	CHECK(terrace_close(file) == 0);
}

/* Returns how many calls went direct. */
static unsigned long forks(const char *path)
{
	struct terrace_usage before, after;
	off_t at = -1;
	terrace_file *file = terrace_open(path, O_RDWR | O_CREAT, 0600);
	CHECK(file != NULL);
	for (int i = 0; i < RECORDS; i++)
		CHECK(terrace_append(file, &i, sizeof i, &at) == sizeof i && at == i * (off_t)sizeof i);
	CHECK(terrace_usage(file, &before) == 0);
	for (int i = RECORDS; i < RECORDS + 10; i += 2) {
		int status = -1;
		pid_t child = fork();
		if (child == 0) {
			ssize_t n = terrace_append(file, &i, sizeof i, &at);
			int is_well = n == sizeof i && at == i * (off_t)sizeof i && terrace_sync(file) == 0;
			_exit(is_well && terrace_close(file) == 0 ? 0 : 1);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		int next = i + 1;
		CHECK(terrace_append(file, &next, sizeof next, &at) == sizeof next);
		CHECK(at == next * (off_t)sizeof next);
	}
	for (int i = 0; i < RECORDS + 10; i++) {
		int read = -1;
		CHECK(terrace_pread(file, &read, sizeof read, i * (off_t)sizeof i) == sizeof read && read == i);
	}
	CHECK(terrace_usage(file, &after) == 0 && after.direct_calls == before.direct_calls);
	CHECK(after.mount_calls == before.mount_calls + 5 + RECORDS + 10);
	CHECK(terrace_close(file) == 0);
	return before.direct_calls;
}

/* The library and the system's calls take turns on one file. */
static void beside(const char *path)
{
	int n = 0, read = -1;
	off_t at = -1;
	/* Under terrace run, its library knows the mount then. */
	int descriptor = open(path, O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 20; i++)
		CHECK(write(descriptor, &n, sizeof n) == sizeof n);
	CHECK(close(descriptor) == 0);
	terrace_file *file = terrace_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(file != NULL);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 50; i++, n++) {
			CHECK(terrace_append(file, &n, sizeof n, &at) == sizeof n);
			CHECK(at == n * (off_t)sizeof n);
		}
		descriptor = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
		CHECK(descriptor >= 0);
		CHECK(terrace_append(file, &n, sizeof n, &at) == sizeof n && at == n * (off_t)sizeof n);
		n++;
		for (int i = 0; i < 30; i++, n++) {
			CHECK(write(descriptor, &n, sizeof n) == sizeof n);
			int more = ++n;
			CHECK(terrace_append(file, &more, sizeof more, &at) == sizeof more);
			CHECK(at == more * (off_t)sizeof more);
			CHECK(pread(descriptor, &read, sizeof read, at) == sizeof read && read == more);
		}
		CHECK(lseek(descriptor, 0, SEEK_END) == n * (off_t)sizeof n);
		CHECK(close(descriptor) == 0);
	}
	CHECK(terrace_size(file) == n * (off_t)sizeof n);
	for (int i = 0; i < n; i++)
		CHECK(terrace_pread(file, &read, sizeof read, i * (off_t)sizeof i) == sizeof read && read == i);
	CHECK(terrace_close(file) == 0);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	arguments(argv[1]);
	beside(argv[1]);
	CHECK(truncate(argv[1], 0) == 0);
	unsigned long direct = forks(argv[1]);
	printf("%lu direct\n", direct);
	return failures == 0 ? 0 : 1;
}
