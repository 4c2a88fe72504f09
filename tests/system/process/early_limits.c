/* A child that tries to pass its limits before anybody can come late with them. Each argument is RESOURCE:SOFT:HARD, as it is to be held
   from the first instruction. A line says what it could do; the last is "done". What it forks tries the same. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char bytes[4096];

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0) _exit(2);
}

static void try_all(struct rlimit *held) {
    int file, number = 0;
    ssize_t wrote;
    off_t size = 0;

    if (mmap(0, held[RLIMIT_AS].rlim_cur, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        say("it had more memory\n");
    file = open("written", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    while (size <= (off_t)held[RLIMIT_FSIZE].rlim_cur && (wrote = write(file, bytes, sizeof bytes)) > 0) size += wrote;
    if (size > (off_t)held[RLIMIT_FSIZE].rlim_cur) say("it wrote a larger file\n");
    if (size < (off_t)held[RLIMIT_FSIZE].rlim_cur) say("it could not write a file as large as it may\n");
    while (number < (int)held[RLIMIT_NOFILE].rlim_cur && open("/dev/null", O_RDONLY) >= 0) number++;
    if (number == (int)held[RLIMIT_NOFILE].rlim_cur) say("it opened more files\n");
}

int main(int count, char **arguments) {
    struct rlimit now[RLIM_NLIMITS], held[RLIM_NLIMITS];
    int kind, status = 0;
    pid_t forked;

    for (kind = 0; kind < RLIM_NLIMITS; kind++) getrlimit(kind, &now[kind]);
    signal(SIGXFSZ, SIG_IGN);
    for (int each = 1; each < count; each++) {
        unsigned long long soft, hard;
        if (sscanf(arguments[each], "%d:%llu:%llu", &kind, &soft, &hard) != 3) return 3;
        held[kind] = (struct rlimit){soft, hard};
        if (now[kind].rlim_cur != soft || now[kind].rlim_max != hard) {
            snprintf(bytes, sizeof bytes, "resource %d was not limited\n", kind);
            say(bytes);
        }
    }
    forked = fork(); /* a confined child may not */
    try_all(held);
    if (forked == 0) _exit(0);
    if (forked > 0) waitpid(forked, &status, 0);
    say("done\n");
    return 0;
}
