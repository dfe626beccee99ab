/* Bad buffers fail with EFAULT, or take the good part, as the kernel does. */
#include "common.h"

int main(int argc, char **argv) {
    file_path = argv[argc - 1];
    int fd = warm(0);
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + 4096, 4096, PROT_NONE);
    memset(page, 'x', 4096);
    say("write none", write(fd, page + 4096, 100));
    say("write null", write(fd, NULL, 100));
    say("write odd address", write(fd, (void *)0xdead000000000000, 100));
    say("pwrite none", pwrite(fd, page + 4096, 5000, 3));
    say("small pwrite", pwrite(fd, page + 4096, 3, 3));
    say("read none", pread(fd, page + 4096, 10, 0));
    say("read null", pread(fd, NULL, 10, 0));
    say("read to constant", pread(fd, (void *)"constant", 5, 0));
    show(fd);
    struct iovec pieces[2] = {{page, 10}, {page + 4096, 10}};
    say("writev bad vector", writev(fd, (struct iovec *)(page + 4096), 2));
    say("writev too many", writev(fd, pieces, -1));
    say("writev none", writev(fd, &pieces[1], 1));
    show(fd);
    say("still", write(fd, "fine", 4));
    say("zero", write(fd, page + 4096, 0));
    say("negative", pwrite(fd, page, 10, -1));
    say("closed", write(77, page, 10));
    lseek(fd, 0, SEEK_SET);
    say("read", read(fd, page, 4096));
    say("end", read(fd, page, 4096));
    say("bad buffer at end", read(fd, page + 4096, 10));
    show(fd);
    return 0;
}
