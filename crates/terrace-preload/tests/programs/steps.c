/* A signal comes behind each single instruction of a call, one after the other, and its handler
   makes a call on the same descriptor. Both calls take effect, in one order or the other. */
#include "common.h"
#include <sys/ucontext.h>

enum { BEFORE = 10, BYTES = 8 * BEFORE };

static int file;
static long wanted, steps, result;
static int fired;
static const char *inner;

static void act(void) {
    char text[8];
    if (!strcmp(inner, "write")) {
        result = write(file, "HANDLER|", 8);
    } else if (!strcmp(inner, "read")) {
        result = read(file, text, 8);
    } else if (!strcmp(inner, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            write(file, "HANDLER|", 8);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        result = 8;
    } else {
        result = dup2(file, file + 1) == file + 1 ? write(file + 1, "HANDLER|", 8) : -1;
        close(file + 1);
    }
}

#ifdef __x86_64__
static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    /* No other signal could come now. */
    if (!fired && sigismember(&((ucontext_t *)context)->uc_sigmask, SIGUSR1)) {
        steps++;
        wanted += steps == wanted;
        return;
    }
    if (fired || ++steps == wanted) {
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
        int error = errno;
        if (!fired++)
            act();
        errno = error;
    }
}

#define STEP(on)                                                                                   \
    do {                                                                                           \
        if (on)                                                                                    \
            __asm__ volatile("sub $128, %%rsp; pushfq; orq $0x100, (%%rsp); popfq;"                \
                             "add $128, %%rsp" ::: "memory", "cc");                                \
        else                                                                                       \
            __asm__ volatile("sub $128, %%rsp; pushfq; andq $~0x100, (%%rsp); popfq;"              \
                             "add $128, %%rsp" ::: "memory", "cc");                                \
    } while (0)
#else
#define STEP(on) (void)(on)
#endif

static long outer(const char *how, char *text) {
    if (!strcmp(how, "write"))
        return write(file, "program|", 8);
    if (!strcmp(how, "read"))
        return read(file, text, 8);
    if (!strcmp(how, "current"))
        return lseek(file, 0, SEEK_CUR) < 0 ? -1 : 0;
    if (!strcmp(how, "end"))
        return lseek(file, 0, SEEK_END) < 0 ? -1 : 0;
    return fcntl(file, F_SETLK, &(struct flock){.l_type = F_RDLCK, .l_whence = SEEK_CUR});
}

/* Whether what both did is what they would have done one after the other. */
static int in_order(const char *how, long moved) {
    char text[4096];
    int reads = !strcmp(how, "read");
    long both = (strcmp(how, "write") ? 0 : 8) + (reads ? 8 : 0);
    int expected = BYTES + (strcmp(how, "write") ? 0 : 8) + (strcmp(inner, "read") ? 8 : 0);
    ssize_t len = pread(file, text, sizeof text, 0);
    if (moved != both || result != 8)
        return 0;
    if (reads)
        return lseek(file, 0, SEEK_CUR) == 16;
    return len == expected && lseek(file, 0, SEEK_CUR) == expected &&
           memmem(text + BYTES, len - BYTES, "HANDLER|", 8) &&
           (!both || memmem(text + BYTES, len - BYTES, "program|", 8));
}

int main(int argc, char **argv) {
    file_path = argv[argc - 1];
    const char *how = argv[1];
    inner = argv[2];
    int append = !strcmp(argv[3], "append") ? O_APPEND : 0, bad = 0;
#ifdef __x86_64__
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, NULL);
#endif
    int stride = strcmp(inner, "fork") ? 1 : 3;
    for (wanted = 1; wanted < 3000; wanted += stride) {
        char text[8];
        unlink(file_path);
        file = open(file_path, O_RDWR | O_CREAT | append, 0644);
        for (int i = 0; i < BEFORE; i++)
            write(file, "before |", 8);
        if (!strcmp(how, "read"))
            lseek(file, 0, SEEK_SET);
        fired = steps = 0;
        STEP(1);
        long moved = outer(how, text);
        STEP(0);
        int was = fired;
        if (was && !in_order(how, moved) && bad++ < 4) {
            char found[200] = "";
            pread(file, found, sizeof found - 1, 0);
            fprintf(stderr, "step %ld: %ld and %ld, at %ld: %s\n", wanted, moved, result,
                    (long)lseek(file, 0, SEEK_CUR), found);
        }
        close(file);
        if (!was)
            break;
    }
    say("out of order", bad);
    return 0;
}
