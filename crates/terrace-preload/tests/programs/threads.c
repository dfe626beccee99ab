/* A thread leaves a call for ever; others that use its descriptor go on. A cancelled thread ends,
   and its descriptor can be used. */
#include "common.h"

static int file;
static sigjmp_buf back;
static volatile int jumps, out;

static void handler(int signal) {
    (void)signal;
    if (jumps && !out) {
        out = 1;
        siglongjmp(back, 1);
    }
}

static void *leaves(void *unused) {
    jumps = 1;
    if (!sigsetjmp(back, 1)) {
        write(file, "left|", 5);
        if (!out)
            raise(SIGUSR1);
    }
    jumps = 0;
    return unused;
}

static void *cancelled(void *how) {
    int old;
    if (how)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (;;)
        pwrite(file, "cancel|", 7, 100);
    return NULL;
}

static void *counts(void *unused) {
    char text[16];
    for (int i = 0; i < 2000; i++) {
        int len = snprintf(text, sizeof text, "%06d|", i);
        write(file, text, len);
    }
    return unused;
}

int main(int argc, char **argv) {
    file_path = argv[argc - 1];
    const char *how = argv[1];
    pthread_t thread, second;
    signal(SIGUSR1, handler);
    file = warm(0);
    if (!strcmp(how, "left")) {
        pthread_create(&thread, NULL, leaves, NULL);
        pthread_join(thread, NULL);
        say("write", write(file, "other|", 6));
        /* Nobody knows what became of the other call. */
        pwrite(file, "left|", 5, 19);
        show(file);
    } else if (!strcmp(how, "cancel")) {
        for (long round = 0; round < 20; round++) {
            void *result;
            pthread_create(&thread, NULL, cancelled, (void *)(round % 2));
            usleep(1000);
            pthread_cancel(thread);
            pthread_join(thread, &result);
            if (result != PTHREAD_CANCELED)
                printf("not cancelled\n");
        }
        say("write", write(file, "other|", 6));
        say("seek", lseek(file, 0, SEEK_CUR));
    } else if (!strcmp(how, "count")) {
        lseek(file, 0, SEEK_SET);
        ftruncate(file, 0);
        pthread_create(&thread, NULL, counts, NULL);
        pthread_create(&second, NULL, counts, NULL);
        pthread_join(thread, NULL);
        pthread_join(second, NULL);
        static char all[40000];
        static int found[2000];
        say("size", pread(file, all, sizeof all, 0));
        for (int i = 0; i < 28000; i += 7)
            found[atoi(all + i) % 2000]++;
        int twice = 0;
        for (int i = 0; i < 2000; i++)
            twice += found[i] == 2;
        printf("twice %d\n", twice);
        say("position", lseek(file, 0, SEEK_CUR));
    }
    return 0;
}
