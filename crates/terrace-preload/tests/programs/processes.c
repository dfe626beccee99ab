/* Descriptors that several processes or several numbers have. */
#include "common.h"

static void child_writes(int fd) {
    write(fd, "child|", 6);
    write(fd, "child|", 6);
    pwrite(fd, "C", 1, 1);
    _exit(7);
}

static void reap(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    printf("status %x\n", status);
}

static pid_t bare_fork(void) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_fork) : "rcx", "r11", "memory");
    return result;
#else
    return fork();
#endif
}

static void bare_close(int fd) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_close), "D"(fd) : "rcx", "r11", "memory");
#else
    close(fd);
#endif
}

/* Closes a number for this thread only: the others keep theirs. */
static void *closes_alone(void *fd) {
    say("close_range", close_range((long)fd, (long)fd, CLOSE_RANGE_UNSHARE));
    say("closed", write((long)fd, "x", 1));
    return NULL;
}

int main(int argc, char **argv) {
    file_path = argv[argc - 1];
    const char *how = argv[1];
    if (!strcmp(how, "inherited")) {
        say("position", lseek(5, 0, SEEK_CUR));
        for (int i = 0; i < 4; i++)
            write(5, "inherited|", 10);
        show(5);
        return 0;
    }
    int fd = warm(!strcmp(how, "append") ? O_APPEND : 0);
    if (!strcmp(how, "fork")) {
        pid_t child = fork();
        if (!child)
            child_writes(fd);
        reap(child);
        for (int i = 0; i < 4; i++)
            write(fd, "parent|", 7);
    } else if (!strcmp(how, "syscall")) {
        pid_t child = syscall(SYS_fork);
        if (!child)
            child_writes(fd);
        reap(child);
        syscall(SYS_write, fd, "parent|", 7);
        say("seek", syscall(SYS_lseek, fd, 0, SEEK_CUR));
    } else if (!strcmp(how, "bare")) {
        /* The parent's position is its own: nothing has told the library of the fork. */
        pid_t child = bare_fork();
        if (!child) {
            say("child at", lseek(fd, 0, SEEK_CUR));
            write(fd, "child|", 6);
            pwrite(fd, "C", 1, 1);
            syscall(SYS_exit_group, 7);
        }
        reap(child);
        lseek(fd, 0, SEEK_END);
        write(fd, "parent|", 7);
    } else if (!strcmp(how, "dup")) {
        int other = dup(fd), third = fcntl(fd, F_DUPFD, 40);
        write(other, "dup|", 4);
        write(fd, "fd|", 3);
        write(third, "third|", 6);
        close(fd);
        write(other, "left|", 5);
        dup2(other, fd);
        lseek(fd, 2, SEEK_SET);
        write(third, "##", 2);
        say("seek", lseek(other, 0, SEEK_CUR));
        dup2(fd, fd);
        say("bad", dup2(99, fd));
        write(fd, "$$", 2);
    } else if (!strcmp(how, "early")) {
        close(fd);
        fd = open(file_path, O_RDWR);
        int other = dup(fd);
        for (int i = 0; i < 4; i++) {
            write(fd, "one|", 4);
            write(other, "two|", 4);
        }
    } else if (!strcmp(how, "out")) {
        /* Standard output becomes the file, and buffered output goes there as well. */
        int out = dup(1);
        dup2(fd, 1);
        printf("printed|");
        fflush(stdout);
        write(fd, "written|", 8);
        printf("printed|");
        fflush(stdout);
        write(1, "out|", 4);
        dup2(out, 1);
    } else if (!strcmp(how, "reuse")) {
        bare_close(fd);
        char other[4096];
        snprintf(other, sizeof other, "%s-other", file_path);
        int again = open(other, O_RDWR | O_CREAT | O_TRUNC, 0644);
        printf("same number %d\n", again == fd);
        for (int i = 0; i < 5; i++)
            write(again, "other|", 6);
        char text[100] = "";
        pread(again, text, 99, 0);
        printf("%s\n", text);
        unlink(other);
        int pair[2];
        bare_close(again);
        pipe(pair);
        printf("same number %d\n", pair[0] == fd);
        write(pair[1], "piped", 5);
        say("pipe", read(pair[0], text, 99));
        close(pair[0]);
        close(pair[1]);
        fd = open(file_path, O_RDONLY);
    } else if (!strcmp(how, "fdopen")) {
        FILE *file = fdopen(fd, "r+");
        fprintf(file, "stdio|");
        fflush(file);
        write(fd, "written|", 8);
        fprintf(file, "stdio|");
        fflush(file);
        dprintf(fd, "%s %d %.1f|", "dprintf", 42, 1.5);
        write(fd, "written|", 8);
    } else if (!strcmp(how, "dprintf")) {
        dprintf(fd, "%s %d %.1f %s %s %s %d|", "dprintf", 42, 1.5, "a", "b", "c", 7);
        write(fd, "written|", 8);
        write(fd, "written|", 8);
    } else if (!strcmp(how, "exec") || !strcmp(how, "execl")) {
        dup2(fd, 5);
        write(fd, "before|", 7);
        if (!strcmp(how, "execl")) {
            execl("/nowhere/program", "x", NULL);
            write(fd, "stays|", 6);
            execl(argv[0], argv[0], "inherited", file_path, NULL);
        }
        char *args[] = {argv[0], "inherited", argv[argc - 1], NULL};
        execv(argv[0], args);
    } else if (!strcmp(how, "vfork")) {
        dup2(fd, 5);
        pid_t child = vfork();
        if (!child) {
            close(fd);
            execl(argv[0], argv[0], "inherited", file_path, NULL);
            _exit(1);
        }
        reap(child);
        write(fd, "parent|", 7);
    } else if (!strcmp(how, "system")) {
        char command[4096];
        snprintf(command, sizeof command, "echo shell >&%d; echo more >> %s", fd, file_path);
        say("system", system(command));
        lseek(fd, 0, SEEK_END);
        write(fd, "parent|", 7);
        FILE *pipe = popen("cat", "w");
        fprintf(pipe, "through cat\n");
        pclose(pipe);
        write(fd, "parent|", 7);
    } else if (!strcmp(how, "append")) {
        int second = open(file_path, O_WRONLY);
        pwrite(second, "BEHIND", 6, 30);
        write(fd, "append|", 7);
        say("position", lseek(fd, 0, SEEK_CUR));
        lseek(fd, 0, SEEK_SET);
        char text[7] = "";
        read(fd, text, 6);
        printf("%s\n", text);
        write(fd, "append|", 7);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_APPEND);
        lseek(fd, 1, SEEK_SET);
        write(fd, "#", 1);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_APPEND);
        write(fd, "append|", 7);
    } else if (!strcmp(how, "message")) {
        int pair[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        char space[CMSG_SPACE(sizeof fd)] = {0}, byte = 'x';
        struct iovec piece = {&byte, 1};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space,
                                 .msg_controllen = sizeof space};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
        say("sendmsg", sendmsg(pair[0], &message, 0));
        memset(space, 0, sizeof space);
        say("recvmsg", recvmsg(pair[1], &message, 0));
        int got;
        memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
        write(got, "got|", 4);
        write(fd, "sender|", 7);
        write(got, "got|", 4);
    } else if (!strcmp(how, "copies")) {
        lseek(fd, 2, SEEK_SET);
        char path[4096], text[100] = "";
        snprintf(path, sizeof path, "%s-copy", file_path);
        int to = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
        for (int i = 0; i < 3; i++)
            write(to, "copy|", 5);
        say("sendfile", sendfile(to, fd, NULL, 5));
        say("at", lseek(fd, 0, SEEK_CUR));
        say("copy_file_range", copy_file_range(fd, NULL, to, NULL, 4, 0));
        say("at", lseek(to, 0, SEEK_CUR));
        say("pread", pread(to, text, 99, 0));
        printf("%s\n", text);
        unlink(path);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = 1, .l_len = 2};
        say("lock", fcntl(fd, F_SETLK, &lock));
        pid_t child = fork();
        if (!child) {
            struct flock seen = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
            fcntl(fd, F_GETLK, &seen);
            printf("locked %ld %ld\n", (long)seen.l_start, (long)seen.l_len);
            fflush(stdout);
            _exit(0);
        }
        reap(child);
    } else if (!strcmp(how, "mapped")) {
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        write(fd, "behind|", 7);
        printf("%s\n", page);
        page[0] = '#';
        char text[7] = "";
        pread(fd, text, 6, 0);
        printf("%s\n", text);
    } else if (!strcmp(how, "closefrom")) {
        dup2(fd, 30);
        close_range(30, 40, 0);
        int again = open(file_path, O_RDWR);
        for (int i = 0; i < 3; i++)
            write(again, "again|", 6);
        say("closed", write(30, "x", 1));
    } else if (!strcmp(how, "fails")) {
        /* Nothing is closed, and nothing is lost. */
        say("dup3", dup3(0, fd, 0x1234));
        write(fd, "one|", 4);
        say("close_range", close_range(fd, fd, 0x80));
        write(fd, "two|", 4);
        say("dup3", syscall(SYS_dup3, 0, fd, 1));
        write(fd, "three|", 6);
        say("dup2", dup2(99, fd));
        write(fd, "four|", 5);
    } else if (!strcmp(how, "alone")) {
        pthread_t thread;
        pthread_create(&thread, NULL, closes_alone, (void *)(long)fd);
        pthread_join(thread, NULL);
        for (int i = 0; i < 3; i++)
            write(fd, "others|", 7);
    }
    show(fd);
    return 0;
}
