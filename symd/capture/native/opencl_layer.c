/* A layer of the OpenCL loader (OPENCL_LAYERS; cl_layer.h): sees the programs that are built and released.
 *
 * A program is loaded until nothing holds it: neither the application nor one of its kernels. So both are counted here, by handle.
 * Numbers of entries and constants are those of cl_icd.h and cl.h, which need not be installed.
 */
#include "handover.h"

typedef void *handle;
typedef int32_t cl_int;
typedef void (*notify_function)(handle program, void *user_data);
typedef cl_int (*info_function)(handle object, uint32_t name, size_t room, void *value, size_t *size);
typedef cl_int (*build_info_function)(handle program, handle device, uint32_t name, size_t room, void *value, size_t *size);
typedef cl_int (*reference_function)(handle object);
typedef cl_int (*build_function)(handle, uint32_t, const handle *, const char *, notify_function, void *);
typedef cl_int (*compile_function)(
    handle, uint32_t, const handle *, const char *, uint32_t, const handle *, const char **, notify_function, void *);
typedef handle (*link_function)(
    handle, uint32_t, const handle *, const char *, uint32_t, const handle *, notify_function, void *, cl_int *);
typedef handle (*source_function)(handle, uint32_t, const char **, const size_t *, cl_int *);
typedef handle (*binary_function)(handle, uint32_t, const handle *, const size_t *, const unsigned char **, cl_int *, cl_int *);
typedef handle (*built_in_function)(handle, uint32_t, const handle *, const char *, cl_int *);
typedef handle (*il_function)(handle, const void *, size_t, cl_int *);
typedef handle (*kernel_function)(handle, const char *, cl_int *);
typedef cl_int (*kernels_function)(handle, uint32_t, handle *, uint32_t *);
typedef handle (*clone_function)(handle, cl_int *);

/* Entries of cl_icd_dispatch. */
enum entry {
    GET_DEVICE_INFO = 3,
    CREATE_PROGRAM_WITH_SOURCE = 26,
    CREATE_PROGRAM_WITH_BINARY = 27,
    RETAIN_PROGRAM = 28,
    RELEASE_PROGRAM = 29,
    BUILD_PROGRAM = 30,
    GET_PROGRAM_INFO = 32,
    GET_PROGRAM_BUILD_INFO = 33,
    CREATE_KERNEL = 34,
    CREATE_KERNELS_IN_PROGRAM = 35,
    RETAIN_KERNEL = 36,
    RELEASE_KERNEL = 37,
    GET_KERNEL_INFO = 39,
    CREATE_PROGRAM_WITH_BUILT_IN_KERNELS = 97,
    COMPILE_PROGRAM = 98,
    LINK_PROGRAM = 99,
    CLONE_KERNEL = 137,
    CREATE_PROGRAM_WITH_IL = 138,
    ENTRIES = 149,
};

enum {
    BUILD_PROGRAM_FAILURE = -11,
    COMPILE_PROGRAM_FAILURE = -15,
    LINK_PROGRAM_FAILURE = -17,
    INVALID_BUILD_OPTIONS = -43,
    DEVICE_NAME = 0x102B,
    DEVICE_VENDOR_ID = 0x1001,
    PROGRAM_NUM_DEVICES = 0x1162,
    PROGRAM_DEVICES = 0x1163,
    PROGRAM_BINARY_SIZES = 0x1165,
    PROGRAM_BINARIES = 0x1166,
    PROGRAM_KERNEL_NAMES = 0x1168,
    PROGRAM_BUILD_STATUS = 0x1181,
    PROGRAM_BUILD_LOG = 0x1183,
    PROGRAM_BINARY_TYPE = 0x1184,
    BINARY_TYPE_EXECUTABLE = 4,
    KERNEL_FUNCTION_NAME = 0x1190,
    PROGRAM_DEBUG_INFO = 0x4100, /* these three are Intel's own */
    PROGRAM_DEBUG_INFO_SIZES = 0x4101,
    KERNEL_GPU_ADDRESS = 0x10010,
    VENDOR_INTEL = 0x8086,
};

static void *target[ENTRIES]; /* what this layer calls: the next layer, or the loader */
static void *dispatch[ENTRIES];
#define CALL(type, entry) ((type)target[entry])

/* A program or a kernel that somebody holds. */
struct object {
    struct object *next;
    handle handle;
    struct object *program; /* a kernel's */
    unsigned held;          /* references of the application; of a program also its kernels */
    int loaded;             /* devices for which it was told to be loaded */
    char *source;           /* of a program; only where lines are asked for */
    size_t source_size;
};

enum { BUCKETS = 4096 };
static struct object *objects[BUCKETS];
static pthread_mutex_t objects_lock = PTHREAD_MUTEX_INITIALIZER;

static struct object **bucket(handle handle)
{
    uint64_t number = (uint64_t)(uintptr_t)handle * 0x9E3779B97F4A7C15u;
    return &objects[number >> 52];
}

static struct object *find(handle handle)
{
    struct object *object = *bucket(handle);
    while (object && object->handle != handle)
        object = object->next;
    return object;
}

static struct object *add(handle handle, struct object *program)
{
    struct object *object = calloc(1, sizeof *object);
    if (!object)
        return NULL;
    object->handle = handle;
    object->held = 1;
    object->program = program;
    object->next = *bucket(handle);
    *bucket(handle) = object;
    if (program)
        program->held++;
    return object;
}

static void drop(struct object *object)
{
    struct object **at = bucket(object->handle);
    while (*at != object)
        at = &(*at)->next;
    *at = object->next;
    free(object->source);
    free(object);
}

static void tell_unloaded(handle program, int devices)
{
    for (int number = 0; number < devices; number++) {
        struct record record;
        begin_record(&record, UNLOADED, OPENCL, OPENCL_LAYER, (char *)program + number, 0);
        hand_over(&record);
    }
}

/* One reference less, told before the driver is: the handle may be another's as soon as the driver has let it go. */
static void release(handle handle)
{
    pthread_mutex_lock(&objects_lock);
    struct object *object = find(handle);
    while (object && --object->held == 0) {
        struct object *program = object->program;
        tell_unloaded(object->handle, object->loaded);
        drop(object);
        object = program;
    }
    pthread_mutex_unlock(&objects_lock);
}

static void retain(handle handle)
{
    pthread_mutex_lock(&objects_lock);
    struct object *object = find(handle);
    if (object)
        object->held++;
    pthread_mutex_unlock(&objects_lock);
}

static void keep_program(handle program)
{
    pthread_mutex_lock(&objects_lock);
    if (program)
        add(program, NULL);
    pthread_mutex_unlock(&objects_lock);
}

/* A program whose build has ended: of a linked one the function that is called then may be the first to hear. */
static void keep_ended(handle program)
{
    pthread_mutex_lock(&objects_lock);
    if (program && !find(program))
        add(program, NULL);
    pthread_mutex_unlock(&objects_lock);
}

/* The parts of a source text in one; a length of 0, or none at all, says that the part ends with a zero byte. */
static void keep_source(handle program, uint32_t count, const char **texts, const size_t *lengths)
{
    struct record text = {NULL, 0, 0, 0};
    for (uint32_t index = 0; index < count; index++)
        add_bytes(&text, texts[index], lengths && lengths[index] ? lengths[index] : strlen(texts[index]));
    pthread_mutex_lock(&objects_lock);
    struct object *object = text.broken ? NULL : find(program);
    if (object) {
        object->source = (char *)text.bytes;
        object->source_size = text.size;
        text.bytes = NULL;
    }
    pthread_mutex_unlock(&objects_lock);
    free(text.bytes);
}

static void keep_kernel(handle kernel, handle program)
{
    pthread_mutex_lock(&objects_lock);
    struct object *of = find(program);
    if (kernel && of)
        add(kernel, of);
    pthread_mutex_unlock(&objects_lock);
}

/* The whole value of an answer, one zero byte behind it; NULL where there is none. */
static void *program_info(handle program, uint32_t name, size_t *size)
{
    info_function ask = CALL(info_function, GET_PROGRAM_INFO);
    if (ask(program, name, 0, NULL, size) != 0 || !*size)
        return NULL;
    char *value = calloc(1, *size + 1);
    if (value && ask(program, name, *size, value, NULL) != 0) {
        free(value);
        return NULL;
    }
    return value;
}

static int is_intel(handle program)
{
    size_t size = 0;
    uint32_t vendor = 0;
    handle *devices = program_info(program, PROGRAM_DEVICES, &size);
    if (devices && size >= sizeof *devices)
        CALL(info_function, GET_DEVICE_INFO)(devices[0], DEVICE_VENDOR_ID, sizeof vendor, &vendor, NULL);
    free(devices);
    return vendor == VENDOR_INTEL;
}

static void add_device(struct record *record, handle device)
{
    char name[256] = "";
    if (CALL(info_function, GET_DEVICE_INFO)(device, DEVICE_NAME, sizeof name - 1, name, NULL) == 0)
        add_text(record, DEVICE, name);
}

static void add_log(struct record *record, handle program, handle device)
{
    size_t size = 0;
    build_info_function ask = CALL(build_info_function, GET_PROGRAM_BUILD_INFO);
    if (ask(program, device, PROGRAM_BUILD_LOG, 0, NULL, &size) != 0 || size <= 1)
        return;
    char *text = calloc(1, size + 1);
    if (text && ask(program, device, PROGRAM_BUILD_LOG, size, text, NULL) == 0)
        add_text(record, BUILD_LOG, text);
    free(text);
}

/* The bytes for one device of an answer that has some for each: sizes first, then as many as the sizes say. The driver writes
 * wherever there is a pointer, so that each device gets one. */
static unsigned char *bytes_for(handle program, uint32_t sizes_name, uint32_t bytes_name, size_t number, size_t *size)
{
    size_t answer = 0;
    size_t *sizes = program_info(program, sizes_name, &answer);
    size_t count = answer / sizeof *sizes;
    unsigned char **parts = sizes && number < count ? calloc(count, sizeof *parts) : NULL;
    unsigned char *found = NULL;
    int whole = parts && sizes[number];
    for (size_t index = 0; whole && index < count; index++)
        whole = (parts[index] = malloc(sizes[index] + 1)) != NULL;
    if (whole && CALL(info_function, GET_PROGRAM_INFO)(program, bytes_name, count * sizeof *parts, parts, NULL) == 0) {
        found = parts[number];
        parts[number] = NULL;
        *size = sizes[number];
    }
    for (size_t index = 0; parts && index < count; index++)
        free(parts[index]);
    free(parts);
    free(sizes);
    return found;
}

/* Kernels by name, ";" between them. */
static void add_kernel_names(struct record *record, handle program)
{
    size_t size = 0;
    char *names = program_info(program, PROGRAM_KERNEL_NAMES, &size), *rest = names;
    for (char *name; (name = strsep(&rest, ";"));)
        if (*name)
            add_text(record, KERNEL, name);
    free(names);
}

/* Kernels by name and address, which the driver says of a kernel only; these are made for that and let go at once. */
static int add_kernel_addresses(struct record *record, handle program)
{
    uint32_t count = 0;
    kernels_function make = CALL(kernels_function, CREATE_KERNELS_IN_PROGRAM);
    if (make(program, 0, NULL, &count) != 0 || !count)
        return 0;
    handle *kernels = calloc(count, sizeof *kernels);
    int made = kernels && make(program, count, kernels, NULL) == 0;
    for (uint32_t index = 0; made && index < count; index++) {
        info_function ask = CALL(info_function, GET_KERNEL_INFO);
        char name[4096] = "";
        uint64_t address = 0;
        size_t size = 0;
        if (ask(kernels[index], KERNEL_GPU_ADDRESS, sizeof address, &address, NULL) != 0)
            address = 0;
        if (ask(kernels[index], KERNEL_FUNCTION_NAME, sizeof name - 1, name, &size) == 0)
            add_field(record, KERNEL, 0, address, name, strlen(name));
        CALL(reference_function, RELEASE_KERNEL)(kernels[index]);
    }
    free(kernels);
    return made;
}

/* Debug data is asked for after a successful build only: before, the older driver aborts. Where it is an ELF image it holds the
 * addresses; the binary beside it is the same for each load. */
static void tell_loaded(handle program, handle device, size_t number)
{
    struct record record;
    size_t size = 0;
    begin_record(&record, LOADED, OPENCL, OPENCL_LAYER, (char *)program + number, 0);
    add_device(&record, device);
    add_log(&record, program, device);
    unsigned char *bytes = bytes_for(program, PROGRAM_DEBUG_INFO_SIZES, PROGRAM_DEBUG_INFO, number, &size);
    int elf = bytes && size > 4 && memcmp(bytes, "\177ELF", 4) == 0;
    if (bytes)
        add_field(&record, DATA, DEBUG_DATA, 0, bytes, size);
    if (elf || !is_intel(program) || !add_kernel_addresses(&record, program))
        add_kernel_names(&record, program);
    free(bytes);
    if (elf || !bytes) {
        bytes = bytes_for(program, PROGRAM_BINARY_SIZES, PROGRAM_BINARIES, number, &size);
        if (bytes)
            add_field(&record, DATA, NATIVE_BINARY, 0, bytes, size);
        free(bytes);
    }
    hand_over(&record);
}

static void tell_failed(handle program, handle device, int result)
{
    struct record record;
    begin_record(&record, BUILD_FAILED, OPENCL, OPENCL_LAYER, NULL, result);
    add_device(&record, device);
    add_log(&record, program, device);
    hand_over(&record);
}

/* What the program is now, on each of its devices: executable, or a failed build. An object file or a library of a program is
 * neither. What it was before is gone. */
static void tell_program(handle program, int result)
{
    size_t size = 0;
    int error = errno, loaded = 0;
    handle *devices = program_info(program, PROGRAM_DEVICES, &size);
    size_t count = devices ? size / sizeof *devices : 0;
    build_info_function ask = CALL(build_info_function, GET_PROGRAM_BUILD_INFO);
    pthread_mutex_lock(&objects_lock);
    struct object *object = find(program);
    if (object) {
        tell_unloaded(program, object->loaded);
        object->loaded = 0;
    }
    pthread_mutex_unlock(&objects_lock);
    for (size_t number = 0; number < count; number++) {
        uint32_t type = 0;
        cl_int status = 0;
        ask(program, devices[number], PROGRAM_BUILD_STATUS, sizeof status, &status, NULL);
        ask(program, devices[number], PROGRAM_BINARY_TYPE, sizeof type, &type, NULL);
        if (status == 0 && type == BINARY_TYPE_EXECUTABLE) {
            tell_loaded(program, devices[number], number);
            loaded = (int)number + 1;
        } else if (status == -2 || (result != 0 && count == 1))
            tell_failed(program, devices[number], result ? result : BUILD_PROGRAM_FAILURE);
    }
    free(devices);
    pthread_mutex_lock(&objects_lock);
    object = find(program);
    if (object)
        object->loaded = loaded;
    pthread_mutex_unlock(&objects_lock);
    errno = error;
}

/* Whether a result says that there was a build, so that there is something to tell. */
static int was_built(cl_int result)
{
    return result == 0 || result == BUILD_PROGRAM_FAILURE || result == COMPILE_PROGRAM_FAILURE ||
           result == LINK_PROGRAM_FAILURE || result == INVALID_BUILD_OPTIONS;
}

/* Whether options say already what debug data is wanted, or what the source is called. */
static int has_word(const char *options)
{
    for (const char *at = options; at && *at; at++)
        if ((at == options || at[-1] == ' ') && at[0] == '-' && (at[1] == 'g' || (at[1] == 's' && at[2] == ' ')))
            return 1;
    return 0;
}

/* Writes a text to a file whose name is the same for the same text (FNV-1a); its path, or 0 where it cannot be written. */
static int write_source(const char *text, size_t size, char *path, size_t room)
{
    uint64_t number = 0xcbf29ce484222325u;
    for (size_t index = 0; index < size; index++)
        number = (number ^ (unsigned char)text[index]) * 0x100000001b3u;
    snprintf(path, room, "%s/%016llx.cl", handover.sources, (unsigned long long)number);
    if (access(path, R_OK) == 0)
        return 1;
    char partial[SOURCES_BYTES + 64];
    snprintf(partial, sizeof partial, "%s.%ld-%llu", path, (long)getpid(), (unsigned long long)boot_time());
    int file = getauxval(AT_SECURE) || !may_write(size)
                   ? -1
                   : open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return 0;
    struct stat folder;
    make_private(file, partial);
    if (stat(handover.sources, &folder) == 0 && folder.st_mode & 077) /* the user named it: who may open it may read what is in it */
        (void)!fchmod(file, 0644);
    int done = write_whole(file, (const unsigned char *)text, size);
    close(file);
    if (done && rename(partial, path) == 0)
        return 1;
    unlink(partial);
    return 0;
}

/* The options with those that give lines and change no code, and with the name of the source; NULL where they are not wanted or
 * cannot be given. */
static char *with_lines(handle program, const char *options)
{
    char path[SOURCES_BYTES + 32], *longer = NULL;
    if (!handover.sources[0] || has_word(options) || !is_intel(program))
        return NULL;
    pthread_mutex_lock(&objects_lock);
    struct object *object = find(program);
    int written = object && object->source && write_source(object->source, object->source_size, path, sizeof path);
    pthread_mutex_unlock(&objects_lock);
    if (written && asprintf(&longer, "%s -gline-tables-only -s %s", options ? options : "", path) < 0)
        return NULL;
    return longer;
}

/* A call that gives the application's function for its end; ours is called first. It is held by the call and by the function that the
 * driver is still to call. */
struct notice {
    notify_function notify;
    void *user_data;
    atomic_int holders;
    atomic_flag told;
};

static struct notice *noticed(notify_function notify, void *user_data)
{
    struct notice *notice = notify ? malloc(sizeof *notice) : NULL;
    if (notice)
        *notice = (struct notice){notify, user_data, 2, ATOMIC_FLAG_INIT};
    return notice;
}

static void let_go(struct notice *notice)
{
    if (atomic_fetch_sub(&notice->holders, 1) == 1)
        free(notice);
}

static void notified(handle program, void *user_data)
{
    struct notice *notice = user_data;
    notify_function notify = notice->notify;
    void *theirs = notice->user_data;
    if (program && !atomic_flag_test_and_set(&notice->told)) {
        keep_ended(program);
        tell_program(program, 0);
    }
    let_go(notice);
    notify(program, theirs);
}

/* After the driver's call, which has no notice where the application wants none. A driver that takes the call says later what came
 * of it. One that refuses it calls nobody. One that says at once that the build failed may call before, after or never: then the
 * notice, a few bytes, is kept for ever. */
static void called(struct notice *notice, handle program, cl_int result)
{
    int built = was_built(result);
    if (!notice) {
        if (program && built)
            tell_program(program, result);
        return;
    }
    if (result != 0 && !atomic_flag_test_and_set(&notice->told)) {
        if (program && built)
            tell_program(program, result);
        else
            let_go(notice);
    }
    let_go(notice);
}

static cl_int build(
    handle program, uint32_t count, const handle *devices, const char *options, notify_function notify, void *user_data)
{
    build_function next = CALL(build_function, BUILD_PROGRAM);
    char *lines = with_lines(program, options);
    int built = lines && next(program, count, devices, lines, NULL, NULL) == 0;
    free(lines);
    if (built) { /* what fails is built once more, as the application wants it: its log names other files */
        tell_program(program, 0);
        if (notify)
            notify(program, user_data);
        return 0;
    }
    struct notice *notice = noticed(notify, user_data);
    cl_int result = next(program, count, devices, options, notice ? notified : notify, notice ? (void *)notice : user_data);
    called(notice, program, result);
    return result;
}

static cl_int compile(handle program, uint32_t count, const handle *devices, const char *options, uint32_t headers,
                      const handle *header_programs, const char **names, notify_function notify, void *user_data)
{
    compile_function next = CALL(compile_function, COMPILE_PROGRAM);
    char *lines = with_lines(program, options);
    int compiled = lines && next(program, count, devices, lines, headers, header_programs, names, NULL, NULL) == 0;
    free(lines);
    if (compiled) {
        tell_program(program, 0);
        if (notify)
            notify(program, user_data);
        return 0;
    }
    struct notice *notice = noticed(notify, user_data);
    cl_int result = next(program, count, devices, options, headers, header_programs, names, notice ? notified : notify,
                         notice ? (void *)notice : user_data);
    called(notice, program, result);
    return result;
}

static handle link_program(handle context, uint32_t count, const handle *devices, const char *options, uint32_t inputs,
                           const handle *programs, notify_function notify, void *user_data, cl_int *error)
{
    link_function next = CALL(link_function, LINK_PROGRAM);
    cl_int own = 0, *result = error ? error : &own;
    struct notice *notice = noticed(notify, user_data);
    handle linked = next(context, count, devices, options, inputs, programs, notice ? notified : notify,
                         notice ? (void *)notice : user_data, result);
    keep_ended(linked);
    called(notice, linked, *result);
    return linked;
}

static handle with_source(handle context, uint32_t count, const char **texts, const size_t *lengths, cl_int *error)
{
    handle program = CALL(source_function, CREATE_PROGRAM_WITH_SOURCE)(context, count, texts, lengths, error);
    keep_program(program);
    if (program && handover.sources[0])
        keep_source(program, count, texts, lengths);
    return program;
}

static handle with_binary(handle context, uint32_t count, const handle *devices, const size_t *sizes,
                          const unsigned char **binaries, cl_int *statuses, cl_int *error)
{
    handle program =
        CALL(binary_function, CREATE_PROGRAM_WITH_BINARY)(context, count, devices, sizes, binaries, statuses, error);
    keep_program(program);
    return program;
}

static handle with_built_in(handle context, uint32_t count, const handle *devices, const char *names, cl_int *error)
{
    handle program = CALL(built_in_function, CREATE_PROGRAM_WITH_BUILT_IN_KERNELS)(context, count, devices, names, error);
    keep_program(program);
    return program;
}

static handle with_il(handle context, const void *bytes, size_t size, cl_int *error)
{
    handle program = CALL(il_function, CREATE_PROGRAM_WITH_IL)(context, bytes, size, error);
    keep_program(program);
    return program;
}

static cl_int retain_program(handle program)
{
    cl_int result = CALL(reference_function, RETAIN_PROGRAM)(program);
    if (result == 0)
        retain(program);
    return result;
}

static cl_int release_program(handle program)
{
    int error = errno;
    release(program);
    errno = error;
    return CALL(reference_function, RELEASE_PROGRAM)(program);
}

static handle create_kernel(handle program, const char *name, cl_int *error)
{
    handle kernel = CALL(kernel_function, CREATE_KERNEL)(program, name, error);
    keep_kernel(kernel, program);
    return kernel;
}

static cl_int create_kernels(handle program, uint32_t room, handle *kernels, uint32_t *count)
{
    uint32_t own = 0;
    cl_int result = CALL(kernels_function, CREATE_KERNELS_IN_PROGRAM)(program, room, kernels, count ? count : &own);
    uint32_t made = count ? *count : own;
    for (uint32_t index = 0; result == 0 && kernels && index < made && index < room; index++)
        keep_kernel(kernels[index], program);
    return result;
}

static handle clone_kernel(handle kernel, cl_int *error)
{
    handle clone = CALL(clone_function, CLONE_KERNEL)(kernel, error);
    pthread_mutex_lock(&objects_lock);
    struct object *of = find(kernel);
    handle program = of && of->program ? of->program->handle : NULL;
    pthread_mutex_unlock(&objects_lock);
    keep_kernel(clone, program);
    return clone;
}

static cl_int retain_kernel(handle kernel)
{
    cl_int result = CALL(reference_function, RETAIN_KERNEL)(kernel);
    if (result == 0)
        retain(kernel);
    return result;
}

static cl_int release_kernel(handle kernel)
{
    int error = errno;
    release(kernel);
    errno = error;
    return CALL(reference_function, RELEASE_KERNEL)(kernel);
}

static const struct {
    enum entry entry;
    void *function;
} replaced[] = {
    {CREATE_PROGRAM_WITH_SOURCE, with_source},
    {CREATE_PROGRAM_WITH_BINARY, with_binary},
    {CREATE_PROGRAM_WITH_BUILT_IN_KERNELS, with_built_in},
    {CREATE_PROGRAM_WITH_IL, with_il},
    {RETAIN_PROGRAM, retain_program},
    {RELEASE_PROGRAM, release_program},
    {BUILD_PROGRAM, build},
    {COMPILE_PROGRAM, compile},
    {LINK_PROGRAM, link_program},
    {CREATE_KERNEL, create_kernel},
    {CREATE_KERNELS_IN_PROGRAM, create_kernels},
    {CLONE_KERNEL, clone_kernel},
    {RETAIN_KERNEL, retain_kernel},
    {RELEASE_KERNEL, release_kernel},
};

#define EXPORTED __attribute__((visibility("default")))

EXPORTED cl_int clGetLayerInfo(uint32_t name, size_t room, void *value, size_t *size)
{
    static const char layer_name[] = "symd";
    uint32_t version = 100;                                   /* CL_LAYER_API_VERSION_100 */
    const void *answer = name == 0x4240 ? (void *)&version : layer_name; /* CL_LAYER_API_VERSION, CL_LAYER_NAME */
    size_t length = name == 0x4240 ? sizeof version : sizeof layer_name;
    if (name != 0x4240 && name != 0x4241)
        return -30; /* CL_INVALID_VALUE */
    if (value && room < length)
        return -30;
    if (value)
        memcpy(value, answer, length);
    if (size)
        *size = length;
    return 0;
}

static void lock_objects(void) { pthread_mutex_lock(&objects_lock); }
static void unlock_objects(void) { pthread_mutex_unlock(&objects_lock); }

/* Answers with a table of as many entries as it was given and knows; entries that the loader lacks stay as they are. */
EXPORTED cl_int clInitLayer(uint32_t count, void *const *next, uint32_t *count_ret, void *const **layer)
{
    if (!next || !count_ret || !layer)
        return -30;
    uint32_t known = count < ENTRIES ? count : ENTRIES;
    memcpy(target, next, known * sizeof *target);
    memcpy(dispatch, next, known * sizeof *dispatch);
    for (size_t index = 0; run_folder() && index < sizeof replaced / sizeof *replaced; index++)
        if (replaced[index].entry < known && target[replaced[index].entry])
            dispatch[replaced[index].entry] = replaced[index].function;
    begin_handover();
    if (run_folder())
        pthread_atfork(lock_objects, unlock_objects, unlock_objects);
    *count_ret = known;
    *layer = dispatch;
    return 0;
}
