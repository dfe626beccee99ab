/* The backend sends SIGUSR1 in the middle of each call. The handler writes the same file, or jumps
   out of the call. Without the library the program raises the signal itself, behind the call. */
#include "common.h"

static int file;
static volatile int handled;
static sigjmp_buf back;
static int jumps;
static char text[6];
static long got;

static void handler(int signal) {
    (void)signal;
    if (handled++)
        return;
    if (jumps)
        siglongjmp(back, 1);
    write(file, "HANDLER|", 8);
}

static void reader(int signal) {
    (void)signal;
    if (!handled++)
        got = read(file, text, 5);
}

static void after(void) {
    if (!handled)
        raise(SIGUSR1);
}

int main(int argc, char **argv) {
    file_path = argv[argc - 1];
    const char *how = argv[1];
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_IGN;
    sigaction(SIGUSR1, &action, NULL);
    file = warm(0);
    action.sa_handler = !strcmp(how, "read") ? reader : handler;
    if (!strcmp(how, "write")) {
        sigaction(SIGUSR1, &action, NULL);
        say("write", write(file, "outer|", 6));
        after();
        show(file);
    } else if (!strcmp(how, "read")) {
        lseek(file, 0, SEEK_SET);
        char outer[7] = "";
        sigaction(SIGUSR1, &action, NULL);
        say("read", read(file, outer, 6));
        after();
        say("handler read", got);
        printf("%s %s\n", outer, text);
        show(file);
    } else if (!strcmp(how, "jump")) {
        jumps = 1;
        sigaction(SIGUSR1, &action, NULL);
        if (!sigsetjmp(back, 1)) {
            write(file, "outer|", 6);
            after();
        }
        /* The thread has left a call, and goes on. Nobody knows what became of that call. */
        pwrite(file, "outer|", 6, 19);
        say("write", write(file, "behind|", 7));
        say("pwrite", pwrite(file, "P", 1, 0));
        char text[100];
        say("pread", pread(file, text, 100, 0));
        show(file);
        say("seek", lseek(file, 2, SEEK_SET));
        say("write", write(file, "##", 2));
        say("close", close(file));
        file = open(file_path, O_RDWR | O_APPEND);
        for (int i = 0; i < 3; i++)
            say("append", write(file, "again|", 6));
        show(file);
    }
    return 0;
}
