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

static volatile int done;
static int written;

/* Writes records of a number each, as long as the main thread goes on. */
static void *records(void *unused) {
    char text[16];
    while (!done) {
        int number = __atomic_fetch_add(&written, 1, __ATOMIC_SEQ_CST);
        int len = snprintf(text, sizeof text, "%07d|", number);
        if (write(file, text, len) != len)
            printf("write failed\n");
    }
    return unused;
}

/* Counts the records of the files that a log had, and prints how many are not there once. */
static void count_records(int files) {
    int *found = calloc(written + 1, sizeof *found), wrong = 0;
    for (int i = 0; i < files; i++) {
        char name[4096], text[8];
        snprintf(name, sizeof name, "%s%d", file_path, i);
        int log = open(name, O_RDONLY);
        while (read(log, text, 8) == 8)
            if (text[7] == '|' && atoi(text) <= written)
                found[atoi(text)]++;
        close(log);
        unlink(name);
    }
    for (int i = 0; i < written; i++)
        wrong += found[i] != 1;
    say("records that are not there once", wrong);
}

/* The number of the file becomes that of a new one, or of itself, again and again. */
static void turn(const char *how) {
    pthread_t threads[2];
    char name[4096];
    int files = 1, rotates = !strcmp(how, "rotate");
    snprintf(name, sizeof name, "%s0", file_path);
    file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, records, NULL);
    for (int i = 0; i < 100; i++) {
        usleep(1000);
        snprintf(name, sizeof name, "%s%d", file_path, files);
        int other =
            rotates ? open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644) : dup(file);
        files += rotates;
        if (dup2(other, file) != file)
            printf("dup2 failed\n");
        close(other);
    }
    done = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    count_records(files);
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
    } else if (!strcmp(how, "rotate") || !strcmp(how, "itself")) {
        turn(how);
    } else if (!strcmp(how, "anywhere")) {
        int old;
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
        say("write", write(file, "anywhere|", 9));
        say("seek", lseek(file, 0, SEEK_CUR));
        show(file);
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old);
        say("was asynchronous", old == PTHREAD_CANCEL_ASYNCHRONOUS);
        for (int i = 0; i < 5; i++)
            say("write", write(file, "again|", 6));
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
