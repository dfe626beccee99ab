/* What the programs share: each prints what it sees, and a test compares that with a run without
   the library. */
#ifndef COMMON_H
#define COMMON_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *file_path;

/* Opens a new file and writes twice: from then on it goes direct. */
static inline int warm(int flags) {
    int fd = open(file_path, O_RDWR | O_CREAT | O_TRUNC | flags, 0644);
    if (fd < 0 || write(fd, "first|", 6) != 6 || write(fd, "second|", 7) != 7 ||
        write(fd, "third|", 6) != 6) {
        perror("warm");
        exit(99);
    }
    return fd;
}

/* Prints a result, with its error. */
static inline long say(const char *what, long result) {
    int error = errno;
    printf("%s %ld %s\n", what, result, result < 0 ? strerror(error) : "");
    fflush(stdout);
    errno = error;
    return result;
}

/* Prints the content of the file, and the position of a descriptor. */
static inline void show(int fd) {
    char text[8192];
    int other = open(file_path, O_RDONLY);
    ssize_t len = read(other, text, sizeof text);
    close(other);
    for (ssize_t at = 0; at < len; at++)
        if (text[at] < 32 || text[at] > 126)
            text[at] = '.';
    printf("[%.*s] at %ld\n", (int)len, text, (long)lseek(fd, 0, SEEK_CUR));
    fflush(stdout);
}
#endif
