/* Calls that few programs make. */
#include "common.h"
#include <aio.h>
#include <linux/aio_abi.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <time.h>

static int file;
static volatile int ticks;

static void tick(int signal) {
    (void)signal;
    ticks++;
    pwrite(file, "TICK", 4, 0);
}

static void *stack_user(void *unused) {
    unshare(CLONE_FILES);
    close(file);
    return unused;
}

int main(int argc, char **argv) {
    file_path = argv[argc - 1];
    const char *how = argv[1];
    file = warm(0);
    char text[100] = "";
    if (!strcmp(how, "position")) {
        lseek(file, 4, SEEK_SET);
        int left = 0;
        ioctl(file, FIONREAD, &left);
        printf("left %d\n", left);
        lseek(file, 5, SEEK_SET);
        say("lockf", lockf(file, F_LOCK, 3));
        say("negative", lseek(file, -100, SEEK_CUR));
        say("no whence", lseek(file, 0, 77));
        say("far", lseek(file, INT64_MAX, SEEK_SET));
        say("further", lseek(file, 1, SEEK_CUR));
        say("write there", write(file, "x", 1));
        say("set", lseek(file, 3, SEEK_SET));
    } else if (!strcmp(how, "malloc")) {
        /* Handlers that come in the middle of malloc write. */
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_handler = tick;
        sigaction(SIGALRM, &action, NULL);
        timer_t timer;
        timer_create(CLOCK_MONOTONIC, NULL, &timer);
        struct itimerspec each = {{0, 50000}, {0, 50000}};
        timer_settime(timer, 0, &each, NULL);
        while (ticks < 2000) {
            void *kept[64];
            for (int i = 0; i < 64; i++)
                kept[i] = malloc(17 * i + 1);
            for (int i = 0; i < 64; i++)
                free(kept[i]);
        }
        timer_delete(timer);
    } else if (!strcmp(how, "aio")) {
        struct aiocb request = {.aio_fildes = file, .aio_buf = "AIO", .aio_nbytes = 3,
                                .aio_offset = 2};
        say("aio_write", aio_write(&request));
        const struct aiocb *list[] = {&request};
        aio_suspend(list, 1, NULL);
        say("aio_return", aio_return(&request));
        write(file, "behind|", 7);
    } else if (!strcmp(how, "io_submit")) {
        aio_context_t context = 0;
        syscall(SYS_io_setup, 4, &context);
        struct iocb request = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = file,
                               .aio_buf = (uint64_t) "KERNEL", .aio_nbytes = 6, .aio_offset = 1};
        struct iocb *list[] = {&request};
        say("io_submit", syscall(SYS_io_submit, context, 1, list));
        struct io_event event;
        say("io_getevents", syscall(SYS_io_getevents, context, 1, 1, &event, NULL));
        write(file, "behind|", 7);
    } else if (!strcmp(how, "unshare")) {
        pthread_t thread;
        pthread_create(&thread, NULL, stack_user, NULL);
        pthread_join(thread, NULL);
        say("still open", write(file, "still|", 6));
        int other = open(file_path, O_RDWR);
        for (int i = 0; i < 4; i++)
            pwrite(other, "O", 1, i);
    } else if (!strcmp(how, "flags")) {
        struct iovec piece = {"durable|", 8};
        say("dsync", pwritev2(file, &piece, 1, -1, RWF_DSYNC));
        say("hipri", pwritev2(file, &piece, 1, -1, RWF_HIPRI));
        say("append", pwritev2(file, &piece, 1, 0, RWF_APPEND));
        say("unknown", pwritev2(file, &piece, 1, 0, 0x4000));
        int reader = open(file_path, O_RDONLY), writer = open(file_path, O_WRONLY);
        for (int i = 0; i < 9; i++)
            read(reader, text, 1), write(writer, "w", 1);
        say("write to reader", write(reader, "x", 1));
        say("read of writer", read(writer, text, 1));
        say("truncate of reader", ftruncate(reader, 0));
        say("negative truncate", ftruncate(writer, -1));
        say("fsync of reader", fsync(reader));
        errno = 77;
        write(file, "x", 1);
        say("errno stays", errno);
    }
    show(file);
    return 0;
}
