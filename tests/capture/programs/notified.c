/* Calls the OpenCL layer, with a driver of its own behind it, for builds whose end a function is told: `notified LAYER CALL ANSWER WHEN`.
 * CALL is build, compile or link, ANSWER what the driver answers, WHEN the driver tells the end: during, after, never. It prints how
 * often its function was called. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle;
typedef void (*notify_function)(handle, void *);
static const char *when;
static int answer, status = -3 /* in progress */, told;
static notify_function waiting;
static void *waiting_data;
static const unsigned char binary[] = "\177ELF of a stub";

static int answered(const void *value, size_t length, size_t room, void *to, size_t *size)
{
    if (size)
        *size = length;
    if (to)
        memcpy(to, value, length < room ? length : room);
    return 0;
}
static int device_info(handle device, uint32_t name, size_t room, void *to, size_t *size)
{
    uint32_t vendor = 1;
    (void)device;
    return name == 0x1001 ? answered(&vendor, sizeof vendor, room, to, size) : answered("Stub", 5, room, to, size);
}
static int program_info(handle program, uint32_t name, size_t room, void *to, size_t *size)
{
    handle device = &answer;
    size_t length = sizeof binary;
    (void)program;
    if (name == 0x1163)
        return answered(&device, sizeof device, room, to, size);
    if (name == 0x1165)
        return answered(&length, sizeof length, room, to, size);
    if (name == 0x1166) {
        memcpy(*(void **)to, binary, sizeof binary);
        return 0;
    }
    return name == 0x1168 ? answered("k", 2, room, to, size) : -30;
}
static int build_info(handle program, handle device, uint32_t name, size_t room, void *to, size_t *size)
{
    uint32_t type = status == 0 ? 4 : 0;
    (void)program, (void)device;
    if (name == 0x1181)
        return answered(&status, sizeof status, room, to, size);
    return name == 0x1184 ? answered(&type, sizeof type, room, to, size) : answered("log", 4, room, to, size);
}

static void end(handle program, notify_function notify, void *data)
{
    status = answer == 0 ? 0 : -2;
    notify(program, data);
}
static int started(handle program, notify_function notify, void *data)
{
    if (!strcmp(when, "during"))
        end(program, notify, data);
    waiting = notify;
    waiting_data = data;
    return answer;
}
static int build(handle program, uint32_t count, const handle *devices, const char *options, notify_function notify, void *data)
{
    (void)count, (void)devices, (void)options;
    return started(program, notify, data);
}
static int compile(handle program, uint32_t count, const handle *devices, const char *options, uint32_t headers,
                   const handle *programs, const char **names, notify_function notify, void *data)
{
    (void)count, (void)devices, (void)options, (void)headers, (void)programs, (void)names;
    return started(program, notify, data);
}
static handle link_programs(handle context, uint32_t count, const handle *devices, const char *options, uint32_t inputs,
                            const handle *programs, notify_function notify, void *data, int *error)
{
    (void)context, (void)count, (void)devices, (void)options, (void)inputs, (void)programs;
    *error = started(&status, notify, data);
    return &status;
}
static int let_go(handle program) { return program ? 0 : -44; }

static void heard(handle program, void *data) { told += program == &status && data == &told; }

int main(int count, char **arguments)
{
    void *driver[149] = {[3] = device_info, [27] = NULL, [29] = let_go, [30] = build, [32] = program_info,
                         [33] = build_info, [98] = compile, [99] = link_programs};
    void *const *layer = NULL;
    uint32_t entries = 0;
    void *library = count == 5 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    int (*begin)(uint32_t, void *const *, uint32_t *, void *const **) =
        library ? (int (*)(uint32_t, void *const *, uint32_t *, void *const **))dlsym(library, "clInitLayer") : NULL;
    if (!begin || begin(149, driver, &entries, &layer) || entries != 149)
        return 64;
    answer = atoi(arguments[3]);
    when = arguments[4];
    int result = 1;
    if (!strcmp(arguments[2], "build"))
        result = ((__typeof__(&build))layer[30])(&status, 0, NULL, "", heard, &told);
    else if (!strcmp(arguments[2], "compile"))
        result = ((__typeof__(&compile))layer[98])(&status, 0, NULL, "", 0, NULL, NULL, heard, &told);
    else
        ((__typeof__(&link_programs))layer[99])(NULL, 0, NULL, "", 0, NULL, heard, &told, &result);
    if (!strcmp(when, "after"))
        end(&status, waiting, waiting_data);
    ((__typeof__(&let_go))layer[29])(&status);
    printf("answered %d, told %d\n", result, told);
    return 0;
}
