/* Faults of the program itself reach its own handler, or kill it. */
#include "common.h"

static sigjmp_buf back;
static volatile int seen;

static void simple(int signal) {
    seen = signal;
    siglongjmp(back, 1);
}

static void full(int signal, siginfo_t *info, void *context) {
    void *address = info->si_code > 0 ? info->si_addr : NULL;
    printf("signal %d code %d address %p context %d\n", signal, info->si_code, address,
           context != NULL);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    printf("blocked: itself %d, USR1 %d, BUS %d\n", sigismember(&now, SIGSEGV),
           sigismember(&now, SIGUSR1), sigismember(&now, SIGBUS));
    siglongjmp(back, 1);
}

int main(int argc, char **argv) {
    file_path = argv[argc - 1];
    int fd = warm(0);
    const char *how = argv[1];
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    say("bad buffer", write(fd, NULL, 10));
    if (!strcmp(how, "handlers")) {
        say("signal gave default", signal(SIGSEGV, simple) == SIG_DFL);
        if (!sigsetjmp(back, 1))
            *(volatile int *)8 = 1;
        printf("seen %d\n", seen);
        action.sa_sigaction = full;
        action.sa_flags = SA_SIGINFO;
        sigemptyset(&action.sa_mask);
        sigaddset(&action.sa_mask, SIGUSR1);
        say("sigaction", sigaction(SIGSEGV, &action, &old));
        printf("old is simple: %d flags %x\n", old.sa_handler == simple, old.sa_flags & ~0x4000000);
        if (!sigsetjmp(back, 1))
            *(volatile int *)16 = 1;
        say("bad buffer", write(fd, NULL, 10));
        say("look", sigaction(SIGSEGV, NULL, &old));
        printf("old is full: %d flags %x mask %d\n", old.sa_sigaction == full,
               old.sa_flags & ~0x4000000, sigismember(&old.sa_mask, SIGUSR1));
        if (!sigsetjmp(back, 1))
            raise(SIGSEGV);
        action.sa_handler = simple;
        action.sa_flags = SA_RESETHAND | SA_NODEFER;
        sigaction(SIGBUS, &action, NULL);
        if (!sigsetjmp(back, 1))
            raise(SIGBUS);
        sigaction(SIGBUS, NULL, &old);
        printf("reset: %d\n", old.sa_handler == SIG_DFL);
        signal(SIGSEGV, SIG_IGN);
        say("raise ignored", raise(SIGSEGV));
        say("bad buffer", write(fd, NULL, 10));
        say("back to default", signal(SIGSEGV, SIG_DFL) == SIG_IGN);
    } else if (!strcmp(how, "blocked")) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        say("write", write(fd, NULL, 10));
        say("pread", pread(fd, (void *)8, 10, 0));
        sigprocmask(SIG_BLOCK, &all, NULL);
        say("write", write(fd, NULL, 10));
        unsigned long mask = -1;
        say("mask", syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask));
        say("write", write(fd, NULL, 10));
        struct iovec *pieces = (void *)16;
        say("writev", writev(fd, pieces, 3));
    } else if (!strcmp(how, "bare")) {
        /* As the kernel takes it. */
        struct {
            void (*handler)(int);
            unsigned long flags;
            void (*restorer)(void);
            unsigned long mask;
        } bare, was;
        memset(&bare, 0, sizeof bare);
        sigaction(SIGUSR1, NULL, &old);
        bare.handler = simple;
        bare.flags = SA_NODEFER;
        say("set", syscall(SYS_rt_sigaction, SIGSEGV, &bare, NULL, sizeof bare.mask));
        say("write", write(fd, NULL, 10));
        say("look", syscall(SYS_rt_sigaction, SIGSEGV, NULL, &was, sizeof bare.mask));
        printf("it is simple: %d\n", was.handler == simple);
        say("default", syscall(SYS_rt_sigaction, SIGSEGV, &(char[sizeof bare]){0}, NULL, 8));
        say("write", write(fd, NULL, 10));
        say("bad", syscall(SYS_rt_sigaction, SIGSEGV, (void *)8, NULL, 8));
    } else if (!strcmp(how, "default")) {
        *(volatile int *)8 = 1;
    } else if (!strcmp(how, "raise")) {
        raise(SIGSEGV);
    } else if (!strcmp(how, "ignored")) {
        signal(SIGSEGV, SIG_IGN);
        *(volatile int *)8 = 1;
    } else if (!strcmp(how, "bus")) {
        char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, open(file_path, O_RDONLY), 0);
        ftruncate(fd, 0);
        printf("%d\n", page[100]);
    } else if (!strcmp(how, "once")) {
        action.sa_handler = simple;
        action.sa_flags = SA_RESETHAND;
        sigaction(SIGSEGV, &action, NULL);
        if (!sigsetjmp(back, 1))
            *(volatile int *)8 = 1;
        printf("seen %d\n", seen);
        fflush(stdout);
        *(volatile int *)8 = 1;
    }
    printf("end\n");
    return 0;
}
