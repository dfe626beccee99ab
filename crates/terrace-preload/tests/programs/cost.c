/* What a call costs. Run by hand: with the library and TERRACE_MAPPED_NOTHING=1 it is the cost of
   the library, on a file elsewhere that of a descriptor that stays on the mount. */
#include "common.h"
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* The best of many rounds: other programs disturb the rest. */
#define MEASURE(what, count, call)                                                                 \
    do {                                                                                           \
        double best = 1e9;                                                                         \
        for (int round = 0; round < 30; round++) {                                                 \
            double start = now();                                                                  \
            for (int i = 0; i < count; i++)                                                        \
                call;                                                                              \
            double each = (now() - start) / count;                                                 \
            best = each < best ? each : best;                                                      \
        }                                                                                          \
        printf("%s %.1f ns\n", what, best);                                                        \
    } while (0)

/* A file is opened, read once and closed. */
static void once(const char *path, char *page) {
    int fd = open(path, O_RDONLY);
    read(fd, page, 10);
    close(fd);
}

int main(int argc, char **argv) {
    static char page[4096];
    file_path = argv[argc - 1];
    int fd = warm(0), null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 10; i++)
        pwrite(fd, page, 4096, 0);
    MEASURE("pwrite", 100000, pwrite(fd, page, 4096, 0));
    MEASURE("pread", 100000, pread(fd, page, 4096, 0));
    MEASURE("write", 100000, write(fd, page, 1));
    MEASURE("lseek", 100000, lseek(fd, 0, SEEK_SET));
    struct iovec piece = {page, 4096};
    MEASURE("pwritev", 100000, pwritev(fd, &piece, 1, 0));
    MEASURE("fdatasync", 100000, fdatasync(fd));
    MEASURE("null write", 100000, write(null, page, 1));
    MEASURE("bad write", 100000, write(-1, page, 1));
    char path[4096];
    snprintf(path, sizeof path, "%s-small", file_path);
    close(open(path, O_CREAT | O_WRONLY, 0644));
    MEASURE("open read close", 5000, once(path, page));
    return 0;
}
