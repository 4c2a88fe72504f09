/* Level Zero modules as a program creates and destroys them: two entries of a table of functions are replaced, and what they are
 * told is handed over. The preloaded library does that with the loader's table, the wrapper driver with the driver's.
 *
 * Layouts are those of ze_api.h and ze_ddi.h, which need not be installed.
 */
#ifndef SYMD_LEVEL_ZERO_H
#define SYMD_LEVEL_ZERO_H

#include "handover.h"

#include <dlfcn.h>

typedef int32_t ze_result; /* ze_result_t; 0 is success */
typedef ze_result (*create_function)(void *context, void *device, const void *description, void **module, void **log);
typedef ze_result (*destroy_function)(void *module);
typedef ze_result (*bytes_function)(void *module, size_t *size, uint8_t *bytes);
typedef ze_result (*debug_function)(void *module, int format, size_t *size, uint8_t *bytes);
typedef ze_result (*names_function)(void *module, uint32_t *count, const char **names);
typedef ze_result (*text_function)(void *log, size_t *size, char *text);
typedef ze_result (*properties_function)(void *device, void *properties);
typedef ze_result (*table_function)(uint32_t version, void **table);

enum { CREATE = 0, DESTROY = 1 };               /* entries of ze_module_dditable_t */
enum { DEVICE_PROPERTIES = 3, NAME_AT = 112, NAME_BYTES = 256, PROPERTIES_BYTES = 512 }; /* ze_device_properties_t, and room */

/* What a table held before, and the functions of the library that filled it. */
struct originals {
    enum way way;
    create_function create;
    destroy_function destroy;
    debug_function debug;
    bytes_function native;
    names_function names;
    text_function log_text;
    destroy_function destroy_log;
    properties_function properties;
};

enum { TABLES = 8 }; /* tables with functions of their own in one process: loaders, layers, drivers */
static struct originals originals[TABLES];
static int tables;
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;

static void add_device(struct record *record, const struct originals *of, void *device)
{
    union {
        uint64_t aligned;
        uint32_t type;
        char bytes[PROPERTIES_BYTES];
    } properties;
    memset(&properties, 0, sizeof properties);
    properties.type = DEVICE_PROPERTIES;
    if (of->properties && of->properties(device, &properties) == 0) {
        properties.bytes[NAME_AT + NAME_BYTES - 1] = 0;
        add_text(record, DEVICE, properties.bytes + NAME_AT);
    }
}

static void add_log(struct record *record, const struct originals *of, void *log)
{
    size_t size = 0;
    if (!log || !of->log_text || of->log_text(log, &size, NULL) != 0 || size <= 1)
        return;
    char *text = calloc(1, size + 1);
    if (text && of->log_text(log, &size, text) == 0)
        add_text(record, BUILD_LOG, text);
    free(text);
}

static void add_kernels(struct record *record, const struct originals *of, void *module)
{
    uint32_t count = 0;
    if (!of->names || of->names(module, &count, NULL) != 0 || !count)
        return;
    const char **names = calloc(count, sizeof *names);
    if (names && of->names(module, &count, names) == 0)
        for (uint32_t index = 0; index < count; index++)
            if (names[index])
                add_text(record, KERNEL, names[index]);
    free(names);
}

/* Whether the driver had such bytes; `starts_elf` says whether they are an ELF image. */
static int add_debug_data(struct record *record, const struct originals *of, void *module, int *starts_elf)
{
    size_t size = 0;
    if (!of->debug || of->debug(module, 0, &size, NULL) != 0 || !size)
        return 0;
    uint8_t *bytes = malloc(size);
    int done = bytes && of->debug(module, 0, &size, bytes) == 0;
    if (done) {
        add_field(record, DATA, DEBUG_DATA, 0, bytes, size);
        *starts_elf = size > 4 && memcmp(bytes, "\177ELF", 4) == 0;
    }
    free(bytes);
    return done;
}

static void add_native_binary(struct record *record, const struct originals *of, void *module)
{
    size_t size = 0;
    if (!of->native || of->native(module, &size, NULL) != 0 || !size)
        return;
    uint8_t *bytes = malloc(size);
    if (bytes && of->native(module, &size, bytes) == 0)
        add_field(record, DATA, NATIVE_BINARY, 0, bytes, size);
    free(bytes);
}

/* An ELF image as debug data holds the addresses at which it was loaded; the native binary beside it is the same for each load. */
static void tell_loaded(const struct originals *of, void *device, void *module, void *log)
{
    struct record record;
    int starts_elf = 0;
    begin_record(&record, LOADED, LEVEL_ZERO, of->way, module, 0);
    add_device(&record, of, device);
    add_kernels(&record, of, module);
    add_log(&record, of, log);
    if (!add_debug_data(&record, of, module, &starts_elf) || starts_elf)
        add_native_binary(&record, of, module);
    hand_over(&record);
}

static void tell_failed(const struct originals *of, void *device, int result, void *log)
{
    struct record record;
    begin_record(&record, BUILD_FAILED, LEVEL_ZERO, of->way, NULL, result);
    add_device(&record, of, device);
    add_log(&record, of, log);
    hand_over(&record);
}

static ze_result create(const struct originals *of, void *context, void *device, const void *description, void **module, void **log)
{
    void *own = NULL;
    ze_result result = of->create(context, device, description, module, log ? log : &own);
    int error = errno;
    void *text = log ? *log : own;
    if (result == 0 && module)
        tell_loaded(of, device, *module, text);
    else
        tell_failed(of, device, result, result == 0x70000004 || result == 0 ? text : NULL);
    if (own && of->destroy_log)
        of->destroy_log(own);
    errno = error;
    return result;
}

/* Told before: another thread may get the same handle as soon as the driver has let it go. */
static ze_result destroy(const struct originals *of, void *module)
{
    struct record record;
    int error = errno;
    begin_record(&record, UNLOADED, LEVEL_ZERO, of->way, module, 0);
    hand_over(&record);
    errno = error;
    return of->destroy(module);
}

/* A function of its own for each table, because a call does not say which table it came through. */
#define FOR_EACH_TABLE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define FUNCTIONS(N)                                                                                                       \
    static ze_result create_##N(void *context, void *device, const void *description, void **module, void **log)           \
    {                                                                                                                      \
        return create(&originals[N], context, device, description, module, log);                                          \
    }                                                                                                                      \
    static ze_result destroy_##N(void *module) { return destroy(&originals[N], module); }
FOR_EACH_TABLE(FUNCTIONS)
#define CREATE_NAME(N) create_##N,
#define DESTROY_NAME(N) destroy_##N,
static const create_function create_functions[TABLES] = {FOR_EACH_TABLE(CREATE_NAME)};
static const destroy_function destroy_functions[TABLES] = {FOR_EACH_TABLE(DESTROY_NAME)};

/* The number of the table with these functions, a new one where it is the first; -1 where it is ours already or there are too
 * many. */
static int table_number(create_function create, destroy_function destroy)
{
    for (int index = 0; index < TABLES; index++)
        if (create == create_functions[index])
            return -1;
    for (int index = 0; index < tables; index++)
        if (originals[index].create == create && originals[index].destroy == destroy)
            return index;
    return tables < TABLES ? tables++ : -1;
}

static void find_functions(struct originals *of, void *library)
{
    of->debug = (debug_function)dlsym(library, "zetModuleGetDebugInfo");
    of->native = (bytes_function)dlsym(library, "zeModuleGetNativeBinary");
    of->names = (names_function)dlsym(library, "zeModuleGetKernelNames");
    of->log_text = (text_function)dlsym(library, "zeModuleBuildLogGetString");
    of->destroy_log = (destroy_function)dlsym(library, "zeModuleBuildLogDestroy");
    of->properties = (properties_function)dlsym(library, "zeDeviceGetProperties");
}

/* Replaces two entries of a table that `library` has filled. */
static void watch_table(void **table, void *library, enum way way)
{
    int error = errno;
    create_function create = (create_function)table[CREATE];
    destroy_function destroy = (destroy_function)table[DESTROY];
    if (run_folder() && create && destroy) {
        begin_handover();
        pthread_mutex_lock(&tables_lock);
        int number = table_number(create, destroy);
        if (number >= 0) {
            originals[number].way = way;
            originals[number].create = create;
            originals[number].destroy = destroy;
            find_functions(&originals[number], library);
            table[CREATE] = (void *)create_functions[number];
            table[DESTROY] = (void *)destroy_functions[number];
        }
        pthread_mutex_unlock(&tables_lock);
    }
    errno = error;
}

#endif
