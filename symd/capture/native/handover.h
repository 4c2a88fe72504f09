/* How a library that is loaded into a program hands records of modules to symd. docs/capture-protocol.md describes the records.
 *
 * A record is whole in memory before it is handed over, and it is handed over before the driver's call returns, so that the program
 * may be killed right after. The ways, in order:
 *   1. the Unix socket in the run's folder: the record itself where it is small, else a sealed file in memory that holds it;
 *   2. a file in the run's folder, which gets its name when it is whole.
 * What fails is counted, and the next record says how many failed.
 *
 * None of this may show in the program: nothing is printed, errno stays, no signal comes, no call waits longer than WAIT_MS for
 * symd, and descriptors that the program closed, or uses for something else by now, are not written to.
 */
#ifndef SYMD_HANDOVER_H
#define SYMD_HANDOVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 1 };
enum kind { LOADED = 1, UNLOADED = 2, BUILD_FAILED = 3, FOUND = 4 };
enum api { LEVEL_ZERO = 1, OPENCL = 2, CUDA = 3, HIP = 4, TRITON = 5 };
enum way { PRELOAD = 1, WRAPPER_DRIVER = 2, OPENCL_LAYER = 3, LISTENER = 4 };
enum tag { COMMAND = 1, DEVICE = 2, KERNEL = 3, BUILD_LOG = 4, DATA = 5, SOURCE = 6, KEY = 7 };
enum form { DEBUG_DATA = 1, NATIVE_BINARY = 2 };

enum {
    WAIT_MS = 100,            /* the longest that a program waits for symd to read */
    SMALL = 2048,             /* bytes of a record that goes as a message of its own */
    FIRST_DESCRIPTOR = 700,   /* the socket's number is at least this, out of the way of what the program opens */
    COMMAND_BYTES = 4096,     /* as much of the command line is told */
    SOURCES_BYTES = 4000,     /* the path of the folder for source texts */
    PATH_BYTES = 96,          /* the folder's path; with the socket's name it must fit in sockaddr_un */
    KEY_BYTES = 64,           /* more than the run's key has */
};

/* In front of each record; the fields follow. Little endian, like everything here. */
struct header {
    char magic[4];
    uint16_t version;
    uint16_t kind;
    uint8_t api;
    uint8_t way;
    uint16_t zero;
    uint32_t process;
    uint64_t start_time;
    uint64_t image;
    uint64_t time;
    uint64_t handle;
    int32_t code;
    uint32_t lost;
    uint64_t size;
};
_Static_assert(sizeof(struct header) == 64, "the header has no gaps");

struct field {
    uint32_t tag;
    uint32_t form;
    uint64_t address;
    uint64_t size;
};
_Static_assert(sizeof(struct field) == 24, "a field's head has no gaps");

struct record {
    unsigned char *bytes;
    size_t size, room;
    int broken; /* there was no memory for it */
};

static struct {
    pthread_mutex_t lock;
    int descriptor; /* the connection to symd, or -1 */
    dev_t device;   /* what it was when it was made: the number may be another file's by now */
    ino_t inode;
    pid_t process; /* who made it */
    uint64_t start_time;
    char command[COMMAND_BYTES];
    size_t command_size;
    int slow; /* symd did not read in time: nothing waits for it until it does */
    atomic_uint lost;
    atomic_uint files; /* written so far, which numbers them */
    char folder[PATH_BYTES];   /* the run's; "" where symd does not run this program */
    char key[KEY_BYTES];       /* tells symd that this is a program of the run, whoever it became */
    char sources[SOURCES_BYTES]; /* where source texts are written so that lines can name them; "" where lines are not asked for */
} handover = {.lock = PTHREAD_MUTEX_INITIALIZER, .descriptor = -1};

/* When the library is loaded: later the program may change its environment. */
__attribute__((constructor)) static void read_settings(void)
{
    const char *folder = getenv("SYMD_CAPTURE");
    if (folder && folder[0] == '/' && strlen(folder) < PATH_BYTES)
        strcpy(handover.folder, folder);
    const char *key = getenv("SYMD_CAPTURE_KEY");
    if (key && strlen(key) < KEY_BYTES)
        strcpy(handover.key, key);
    const char *sources = getenv("SYMD_CAPTURE_SOURCES");
    if (sources && sources[0] == '/' && strlen(sources) < SOURCES_BYTES && !strpbrk(sources, " \t\"'\\"))
        strcpy(handover.sources, sources);
}

static const char *run_folder(void) { return handover.folder[0] ? handover.folder : NULL; }

static uint64_t boot_time(void)
{
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Another number in each program that a process becomes (execve): the kernel's random bytes for it (getauxval(3)). */
static uint64_t image_number(void)
{
    uint64_t number = 0;
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random)
        memcpy(&number, random, sizeof number);
    return number;
}

/* Up to `room` bytes of a file below /proc; how many there were. */
static size_t read_file(const char *path, char *bytes, size_t room)
{
    size_t size = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    while (size < room) {
        ssize_t got = read(file, bytes + size, room - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    close(file);
    return size;
}

/* Field 22 of /proc/self/stat (proc(5)); 0 where it cannot be read. */
static uint64_t process_start_time(void)
{
    char text[1024];
    size_t size = read_file("/proc/self/stat", text, sizeof text - 1);
    text[size] = 0;
    const char *at = strrchr(text, ')'); /* the command's name before it may hold spaces and parentheses */
    for (int number = 2; at && number < 22; number++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static void add_bytes(struct record *record, const void *bytes, size_t size)
{
    if (record->broken)
        return;
    if (size > record->room - record->size) {
        size_t room = record->room ? record->room : 1024;
        while (room - record->size < size && room < SIZE_MAX / 2)
            room *= 2;
        unsigned char *larger = realloc(record->bytes, room);
        if (!larger || room - record->size < size) {
            if (larger)
                record->bytes = larger;
            record->broken = 1;
            return;
        }
        record->bytes = larger;
        record->room = room;
    }
    if (size)
        memcpy(record->bytes + record->size, bytes, size);
    record->size += size;
}

static void begin_record(struct record *record, enum kind kind, enum api api, enum way way, const void *handle, int code)
{
    struct header header = {
        .magic = {'s', 'y', 'm', 'd'},
        .version = VERSION,
        .kind = (uint16_t)kind,
        .api = (uint8_t)api,
        .way = (uint8_t)way,
        .time = boot_time(),
        .handle = (uint64_t)(uintptr_t)handle,
        .code = code,
    };
    memset(record, 0, sizeof *record);
    add_bytes(record, &header, sizeof header);
}

static void add_field(struct record *record, enum tag tag, enum form form, uint64_t address, const void *bytes, size_t size)
{
    struct field field = {.tag = tag, .form = form, .address = address, .size = size};
    add_bytes(record, &field, sizeof field);
    add_bytes(record, bytes, size);
}

static void add_text(struct record *record, enum tag tag, const char *text)
{
    add_field(record, tag, 0, 0, text, strlen(text));
}

/* Whether the connection is still the one that was made here. */
static int connected(void)
{
    struct stat now;
    return handover.descriptor >= 0 && fstat(handover.descriptor, &now) == 0 && now.st_dev == handover.device &&
           now.st_ino == handover.inode;
}

static int open_connection(const char *folder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    int opened = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (opened < 0)
        return -1;
    if (connect(opened, (struct sockaddr *)&address, sizeof address) < 0) {
        close(opened);
        return -1;
    }
    int high = fcntl(opened, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
    if (high >= 0) {
        close(opened);
        opened = high;
    }
    return opened;
}

/* Called with the lock held. A process that was forked off takes a connection of its own where it can, so that symd sees whose end
 * it is; where it cannot (its root is another, it may not any more) it goes on with its parent's. */
static int connection(const char *folder)
{
    int usable = connected();
    if (usable && handover.process == getpid())
        return handover.descriptor;
    int opened = open_connection(folder);
    struct stat now;
    if (opened < 0 || fstat(opened, &now) < 0) {
        if (opened >= 0)
            close(opened);
        return usable ? handover.descriptor : -1;
    }
    if (usable)
        close(handover.descriptor);
    handover.descriptor = opened;
    handover.device = now.st_dev;
    handover.inode = now.st_ino;
    return opened;
}

/* Called with the lock held: what is told of this process, once in it and once in each that it forks off. */
static void know_process(void)
{
    if (handover.process == getpid())
        return;
    handover.start_time = process_start_time();
    handover.command_size = read_file("/proc/self/cmdline", handover.command, sizeof handover.command);
}

static void before_fork(void) { pthread_mutex_lock(&handover.lock); }
static void after_fork(void) { pthread_mutex_unlock(&handover.lock); }

/* Called once when the runtime that is watched starts, while the program may still be allowed to connect. */
static void begin_handover(void)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    int error = errno;
    const char *folder = run_folder();
    if (folder && !atomic_flag_test_and_set(&begun)) {
        pthread_atfork(before_fork, after_fork, after_fork);
        pthread_mutex_lock(&handover.lock);
        know_process();
        connection(folder);
        handover.process = getpid();
        pthread_mutex_unlock(&handover.lock);
    }
    errno = error;
}

/* Send without waiting, then once more after symd had WAIT_MS to read. */
static int send_message(int descriptor, const struct msghdr *message)
{
    for (int waited = handover.slow;; waited = 1) {
        if (sendmsg(descriptor, message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
            handover.slow = 0;
            return 1;
        }
        if (errno != EAGAIN)
            return 0;
        if (waited) {
            handover.slow = 1;
            return 0;
        }
        struct pollfd room = {.fd = descriptor, .events = POLLOUT};
        poll(&room, 1, WAIT_MS);
    }
}

static int write_whole(int file, const unsigned char *bytes, size_t size)
{
    while (size) {
        ssize_t done = write(file, bytes, size < (1u << 30) ? size : (1u << 30));
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return 0;
        bytes += done;
        size -= (size_t)done;
    }
    return 1;
}

static int send_small(int descriptor, const struct record *record)
{
    struct iovec part = {.iov_base = record->bytes, .iov_len = record->size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return send_message(descriptor, &message);
}

/* The record in a sealed file in memory; the message is its header. */
static int send_large(int descriptor, const struct record *record)
{
    int memory = memfd_create("symd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0)
        return 0;
    int sent = 0;
    if (write_whole(memory, record->bytes, record->size) &&
        fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0) {
        union {
            struct cmsghdr head;
            char room[CMSG_SPACE(sizeof(int))];
        } control;
        memset(&control, 0, sizeof control);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &memory, sizeof memory);
        struct iovec part = {.iov_base = record->bytes, .iov_len = sizeof(struct header)};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
        sent = send_message(descriptor, &message);
    }
    close(memory);
    return sent;
}

/* Nobody else opens it, whatever the umask. After sudo the program is root, and the folder's owner, who shall read it, another user. */
static void make_private(int file, const char *path)
{
    char folder[SOURCES_BYTES + 64];
    struct stat status;
    snprintf(folder, sizeof folder, "%s", path);
    char *name = strrchr(folder, '/');
    if (name)
        *name = 0;
    if (fchmod(file, 0600) == 0 && geteuid() == 0 && stat(folder, &status) == 0 && status.st_uid)
        (void)!fchown(file, status.st_uid, (gid_t)-1);
}

/* A file of its own, which symd reads under its second name only. A program with another user's rights writes no files for its
 * caller. */
static int write_record(const char *folder, const struct record *record)
{
    if (getauxval(AT_SECURE))
        return 0;
    char path[PATH_BYTES + 64], whole[PATH_BYTES + 72];
    unsigned number = atomic_fetch_add(&handover.files, 1);
    snprintf(path, sizeof path, "%s/spool/%llu-%ld-%u", folder, (unsigned long long)boot_time(), (long)getpid(), number);
    snprintf(whole, sizeof whole, "%s.record", path);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return 0;
    make_private(file, path);
    int done = write_whole(file, record->bytes, record->size);
    close(file);
    if (done && rename(path, whole) == 0)
        return 1;
    unlink(path);
    return 0;
}

/* A write beyond RLIMIT_FSIZE, also into memory, would send SIGXFSZ. */
static int may_write(size_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

static int send_record(int descriptor, const struct record *record)
{
    if (descriptor < 0)
        return 0;
    if (record->size <= SMALL)
        return send_small(descriptor, record);
    return may_write(record->size) && send_large(descriptor, record);
}

/* Called with the lock held. A connection that fails, and not because symd is slow, is made once more. */
static int deliver(const char *folder, const struct record *record)
{
    int done = send_record(connection(folder), record);
    if (!done && !handover.slow && connected()) {
        close(handover.descriptor);
        handover.descriptor = -1;
        done = send_record(connection(folder), record);
    }
    return done || (may_write(record->size) && write_record(folder, record));
}

/* Fills in what the header says of the process, hands over, and frees the record. */
static void hand_over(struct record *record)
{
    const char *folder = run_folder();
    int done = 0, before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* the calls below are points where a thread may be cancelled */
    if (folder && !record->broken) {
        pthread_mutex_lock(&handover.lock);
        know_process();
        connection(folder);
        handover.process = getpid();
        if (((struct header *)record->bytes)->kind != UNLOADED)
            add_field(record, COMMAND, 0, 0, handover.command, handover.command_size);
        add_text(record, KEY, handover.key);
        unsigned lost = atomic_exchange(&handover.lost, 0);
        if (!record->broken) {
            struct header *header = (struct header *)record->bytes;
            header->process = (uint32_t)getpid();
            header->start_time = handover.start_time;
            header->image = image_number();
            header->lost = lost;
            header->size = record->size - sizeof *header;
            done = deliver(folder, record);
        }
        if (!done)
            atomic_fetch_add(&handover.lost, lost);
        pthread_mutex_unlock(&handover.lock);
    }
    if (folder && !done)
        atomic_fetch_add(&handover.lost, 1);
    free(record->bytes);
    record->bytes = NULL;
    pthread_setcancelstate(before, NULL);
}

#endif
