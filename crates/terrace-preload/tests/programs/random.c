/* Random calls on a few descriptors of a few files. Each call and its result is printed. */
#include "common.h"

#define FILES 3
#define SLOTS 6

static uint64_t state;
static char buffer[1 << 16], other[1 << 16];
static int fds[SLOTS];
static char paths[FILES][4096];
static int steps;

static uint32_t pick(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 20) % below;
}

static uint32_t digest(const char *bytes, ssize_t len) {
    uint32_t hash = 2166136261u;
    for (ssize_t at = 0; at < len; at++)
        hash = (hash ^ (unsigned char)bytes[at]) * 16777619u;
    return hash;
}

static void result(const char *what, int slot, long value) {
    int error = errno;
    printf("%d %s %d %ld %s\n", steps, what, slot, value, value < 0 ? strerror(error) : "");
}

static size_t some(void) {
    static const size_t most[] = {1, 16, 100, 600, 4096, 9000};
    return pick(most[pick(6)]) + 1;
}

static void fill(size_t len) {
    for (size_t at = 0; at < len; at++)
        buffer[at] = 'a' + (at + state) % 26;
}

static struct iovec *vector(char *base, int *count) {
    static struct iovec pieces[40];
    *count = pick(10) ? pick(5) + 1 : 40;
    for (int i = 0; i < *count; i++) {
        size_t len = pick(700);
        pieces[i] = (struct iovec){base, len};
        base += len;
    }
    return pieces;
}

static void data(int slot) {
    int fd = fds[slot], count;
    size_t len = some();
    off_t at = pick(3) ? pick(20000) : pick(100);
    ssize_t got;
    fill(sizeof buffer);
    memset(other, 0, 30000);
    switch (pick(14)) {
    case 0: case 1: case 2:
        result("write", slot, write(fd, buffer, len));
        break;
    case 3: case 4: case 5:
        result("read", slot, got = read(fd, other, len));
        printf("%x\n", digest(other, got));
        break;
    case 6:
        result("pwrite", slot, pwrite(fd, buffer, len, at));
        break;
    case 7:
        result("pread", slot, got = pread(fd, other, len, at));
        printf("%x\n", digest(other, got));
        break;
    case 8: {
        struct iovec *pieces = vector(buffer, &count);
        result("writev", slot, writev(fd, pieces, count));
        break;
    }
    case 9: {
        struct iovec *pieces = vector(other, &count);
        result("readv", slot, got = readv(fd, pieces, count));
        printf("%x\n", digest(other, got));
        break;
    }
    case 10: {
        struct iovec *pieces = vector(buffer, &count);
        result("pwritev", slot, pwritev(fd, pieces, count, at));
        break;
    }
    case 11: {
        static const int flags[] = {0, RWF_DSYNC, RWF_SYNC, RWF_APPEND};
        struct iovec *pieces = vector(buffer, &count);
        int flag = flags[pick(4)];
        result("pwritev2", slot, pwritev2(fd, pieces, count, pick(2) ? at : -1, flag));
        break;
    }
    case 12: {
        struct iovec *pieces = vector(other, &count);
        result("preadv2", slot, got = preadv2(fd, pieces, count, pick(2) ? at : -1, 0));
        printf("%x\n", digest(other, got));
        break;
    }
    case 13:
        result("syscall", slot, got = syscall(SYS_read, fd, other, len));
        printf("%x\n", digest(other, got));
        break;
    }
}

static void reopen(int slot) {
    static const int modes[] = {O_RDWR, O_RDWR, O_RDWR, O_WRONLY, O_RDONLY};
    static const int extra[] = {0, 0, 0, O_APPEND, O_TRUNC, O_DSYNC};
    if (fds[slot] >= 0)
        result("close", slot, close(fds[slot]));
    int flags = modes[pick(5)] | extra[pick(6)] | O_CREAT | (pick(2) ? O_CLOEXEC : 0);
    fds[slot] = open(paths[pick(FILES)], flags, 0644);
    result("open", slot, fds[slot]);
}

static void processes(void) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 5; i++)
            if (fds[i % SLOTS] >= 0)
                data(i % SLOTS);
        fflush(stdout);
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    result("child", 0, WEXITSTATUS(status));
}

/* Whether two descriptors have one file. A copy inside of one gives bytes that depend on the pages
   that the file had. */
static int one_file(int first, int second) {
    struct stat a, b;
    return fstat(first, &a) || fstat(second, &b) || a.st_ino == b.st_ino;
}

static void rare(int slot) {
    int fd = fds[slot], second = pick(SLOTS);
    struct stat stat;
    switch (pick(12)) {
    case 0:
        if (fd >= 0 && second != slot) {
            if (fds[second] >= 0 && pick(2)) {
                result("dup2", slot, dup2(fd, fds[second]));
            } else {
                if (fds[second] >= 0)
                    close(fds[second]);
                result("dup", slot, fds[second] = dup(fd));
            }
        }
        break;
    case 1:
        result("setfl", slot, fcntl(fd, F_SETFL, pick(2) ? O_APPEND : 0));
        break;
    case 2: case 3:
        result("truncate", slot, ftruncate(fd, pick(12000)));
        break;
    case 4:
        result("fsync", slot, pick(2) ? fsync(fd) : fdatasync(fd));
        break;
    case 5:
        result("fstat", slot, fstat(fd, &stat));
        printf("%ld\n", (long)stat.st_size);
        break;
    case 6:
        if (!pick(4))
            processes();
        break;
    case 7:
        if (!one_file(fd, fds[second]))
            result("sendfile", slot, sendfile(fds[second], fd, NULL, some()));
        break;
    case 8:
        if (!one_file(fd, fds[second]))
            result("copy", slot, copy_file_range(fd, NULL, fds[second], NULL, some(), 0));
        break;
    case 9:
        if (!pick(5)) {
            result("dprintf", slot, dprintf(fd, "%s %d\n", "printed", steps));
        }
        break;
    case 10:
        result("range", slot, sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
        break;
    case 11:
        if (!pick(8)) {
            fflush(stdout);
            result("system", slot, system("true"));
        }
        break;
    }
}

int main(int argc, char **argv) {
    state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 10; i++)
        pick(2);
    for (int i = 0; i < FILES; i++) {
        snprintf(paths[i], sizeof paths[i], "%s-%d", argv[argc - 1], i);
        unlink(paths[i]);
    }
    for (int i = 0; i < SLOTS; i++)
        fds[i] = -1;
    for (int i = 0; i < SLOTS; i++)
        reopen(i);
    for (steps = 0; steps < 4000; steps++) {
        int slot = pick(SLOTS), kind = pick(100);
        if (kind < 75) {
            data(slot);
        } else if (kind < 87) {
            static const int from[] = {SEEK_SET, SEEK_CUR, SEEK_END};
            int whence = from[pick(3)];
            off_t offset = (off_t)pick(9000) - (whence == SEEK_SET && pick(9) ? 0 : 4000);
            result("lseek", slot, lseek(fds[slot], offset, whence));
        } else if (kind < 98) {
            rare(slot);
        } else {
            reopen(slot);
        }
    }
    for (int i = 0; i < FILES; i++) {
        int fd = open(paths[i], O_RDONLY);
        ssize_t len = read(fd, other, sizeof other);
        printf("file %d: %zd %x\n", i, len, digest(other, len));
        unlink(paths[i]);
    }
    return 0;
}
