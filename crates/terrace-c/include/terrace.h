/*
 * libterrace: files of a Terrace mount, read and written in persistent memory by the program's own process.
 *
 * Each function works on any file of any file system. On a Terrace mount that lends files (terrace mount -o
 * lend=owner), calls go direct, without a system call, as long as the file is lent to this process. All other calls
 * are system calls: slower, never wrong.
 *
 * Functions that return an int, an ssize_t or an off_t return -1 if they fail, and terrace_open returns NULL. errno
 * says why then, with the numbers of the system call that does the same, and terrace_last_error has a text. A file or a
 * path that is NULL gives EINVAL, as does a negative offset or size. A buffer that is NULL gives EFAULT; other buffers
 * that are not the program's memory end it by a signal.
 *
 * Any thread may call any function, also on the same file, but for terrace_close: when it is called, no other call on
 * the file is under way or comes later. A signal handler calls none of them, and no fork. A thread that calls them has
 * a stack of 64 KiB at least.
 *
 * libterrace(3) says what forks do to files, and what takes the mount.
 */

#ifndef TERRACE_H
#define TERRACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
static_assert(sizeof(off_t) == 8, "libterrace needs offsets of 64 bits: compile with -D_FILE_OFFSET_BITS=64");
extern "C" {
#else
_Static_assert(sizeof(off_t) == 8, "libterrace needs offsets of 64 bits: compile with -D_FILE_OFFSET_BITS=64");
#endif

/* An open file. */
typedef struct terrace_file terrace_file;

/* Calls of a file that have succeeded, and the bytes that they read or wrote. */
struct terrace_usage {
	uint64_t direct_calls; /* without a system call */
	uint64_t direct_bytes;
	uint64_t mount_calls; /* by system calls, on whatever file system */
	uint64_t mount_bytes;
	const char *why; /* why the last of these took the mount; "" if none did. It stays valid. */
};

/*
 * Opens a file as open(2) does. mode is that of a file that O_CREAT makes. The descriptor is closed on exec.
 *
 * flags are O_RDONLY, O_WRONLY or O_RDWR, and any of O_CREAT, O_EXCL, O_TRUNC, O_CLOEXEC, O_NOFOLLOW, O_NOATIME,
 * O_NOCTTY, O_NONBLOCK, O_LARGEFILE, O_SYNC, O_DSYNC. Others give EINVAL: terrace_append takes the place of O_APPEND,
 * and a file that is lent has no cache that O_DIRECT could leave out.
 */
terrace_file *terrace_open(const char *path, int flags, mode_t mode);

/*
 * Reads up to n bytes from offset on, and returns how many. They are fewer than n at the end of the file only. Some
 * may have been read if it fails.
 */
ssize_t terrace_pread(terrace_file *file, void *buffer, size_t n, off_t offset);

/* Writes n bytes at offset, and returns n. It never writes fewer, but if it fails, some may have been written. */
ssize_t terrace_pwrite(terrace_file *file, const void *buffer, size_t n, off_t offset);

/*
 * Writes n bytes at the end of the file, in one piece, and returns n. *begin gets the offset of the first one, unless
 * begin is NULL. Nothing that other threads or processes append is overwritten. Some may have been written if it fails.
 * ESPIPE: it is no regular file. EIO: among others, the kernel has divided the bytes, and somebody else has appended in
 * between.
 */
ssize_t terrace_append(terrace_file *file, const void *buffer, size_t n, off_t *begin);

/* Makes durable all that was written to the file before, as fdatasync(2) does. A write that went direct is already. */
int terrace_sync(terrace_file *file);

/* Sets the size: cuts the file, or fills it up with zeros. */
int terrace_truncate(terrace_file *file, off_t size);

/* Returns the size. */
off_t terrace_size(terrace_file *file);

/* Tells how many calls of this file went which way. */
int terrace_usage(terrace_file *file, struct terrace_usage *usage);

/* Closes the file, also if it fails. Nothing is synced. */
int terrace_close(terrace_file *file);

/*
 * Returns what went wrong with this thread's last call that failed: the file, the call, the error and, if there is one,
 * the remedy. "" if none has failed. It stays valid until another call of this thread fails.
 */
const char *terrace_last_error(void);

/* Returns the version of the library, such as "0.1.0". */
const char *terrace_version(void);

#ifdef __cplusplus
}
#endif

#endif
