/* Preloaded into a program (LD_PRELOAD): sees what it loads through HIP, and what it brings along for the runtime to load when it is needed.
 *
 * Signatures are those of hip_runtime_api.h, which need not be installed.
 */
#define API HIP
#define RUNTIME "libamdhip64.so"
#define CURRENT_DEVICE "hipGetDevice"
#define DEVICE_NAME "hipDeviceGetName"
#include "runtime_functions.h"

typedef int result;            /* hipError_t; 0 is success */
enum { NOT_INITIALIZED = 3 }; /* hipErrorNotInitialized */

enum index {
    MODULE_LOAD, MODULE_LOAD_DATA, MODULE_LOAD_DATA_EX, MODULE_LOAD_FAT_BINARY, MODULE_UNLOAD,
    LIBRARY_LOAD_DATA, LIBRARY_LOAD_FROM_FILE, LIBRARY_UNLOAD, GET_PROC_ADDRESS, REGISTER_FAT_BINARY,
};

EXPORTED result hipModuleLoad(void **module, const char *path)
{
    result (*next)(void **, const char *) = (result(*)(void **, const char *))original(MODULE_LOAD);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(module, path);
    tell_outcome(outcome, module, NULL, path, 0, NULL, NULL);
    return outcome;
}

EXPORTED result hipModuleLoadData(void **module, const void *image)
{
    result (*next)(void **, const void *) = (result(*)(void **, const void *))original(MODULE_LOAD_DATA);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(module, image);
    tell_outcome(outcome, module, image, NULL, 0, NULL, NULL);
    return outcome;
}

EXPORTED result hipModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values)
{
    result (*next)(void **, const void *, unsigned, int *, void **) =
        (result(*)(void **, const void *, unsigned, int *, void **))original(MODULE_LOAD_DATA_EX);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(module, image, count, options, values);
    tell_outcome(outcome, module, image, NULL, count, options, values);
    return outcome;
}

EXPORTED result hipModuleLoadFatBinary(void **module, const void *image)
{
    result (*next)(void **, const void *) = (result(*)(void **, const void *))original(MODULE_LOAD_FAT_BINARY);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(module, image);
    tell_outcome(outcome, module, image, NULL, 0, NULL, NULL);
    return outcome;
}

/* Told before: another thread may get the same handle as soon as the runtime has let it go. */
EXPORTED result hipModuleUnload(void *module)
{
    result (*next)(void *) = (result(*)(void *))original(MODULE_UNLOAD);
    if (!next)
        return NOT_INITIALIZED;
    tell_unloaded(module);
    return next(module);
}

EXPORTED result hipLibraryLoadData(void **library, const void *image, int *options, void **values, unsigned count, int *more,
                                   void **others, unsigned rest)
{
    result (*next)(void **, const void *, int *, void **, unsigned, int *, void **, unsigned) =
        (result(*)(void **, const void *, int *, void **, unsigned, int *, void **, unsigned))original(LIBRARY_LOAD_DATA);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(library, image, options, values, count, more, others, rest);
    tell_outcome(outcome, library, image, NULL, count, options, values);
    return outcome;
}

EXPORTED result hipLibraryLoadFromFile(void **library, const char *path, int *options, void **values, unsigned count, int *more,
                                       void **others, unsigned rest)
{
    result (*next)(void **, const char *, int *, void **, unsigned, int *, void **, unsigned) =
        (result(*)(void **, const char *, int *, void **, unsigned, int *, void **, unsigned))original(LIBRARY_LOAD_FROM_FILE);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(library, path, options, values, count, more, others, rest);
    tell_outcome(outcome, library, NULL, path, count, options, values);
    return outcome;
}

EXPORTED result hipLibraryUnload(void *library)
{
    result (*next)(void *) = (result(*)(void *))original(LIBRARY_UNLOAD);
    if (!next)
        return NOT_INITIALIZED;
    tell_unloaded(library);
    return next(library);
}

EXPORTED result hipGetProcAddress(const char *name, void **function, int version, uint64_t flags, void *status)
{
    result (*next)(const char *, void **, int, uint64_t, void *) =
        (result(*)(const char *, void **, int, uint64_t, void *))original(GET_PROC_ADDRESS);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(name, function, version, flags, status);
    void *replacement = outcome == 0 && function ? replaced(name, *function) : NULL;
    if (replacement)
        *function = replacement;
    return outcome;
}

EXPORTED void **__hipRegisterFatBinary(const void *wrapper)
{
    void **(*next)(const void *) = (void **(*)(const void *))original(REGISTER_FAT_BINARY);
    void **handle = next ? next(wrapper) : NULL;
    if (next)
        tell_registered(wrapper);
    return handle;
}

static struct watched watched[] = {
    [MODULE_LOAD] = {.name = "hipModuleLoad", .replacement = (void *)hipModuleLoad},
    [MODULE_LOAD_DATA] = {.name = "hipModuleLoadData", .replacement = (void *)hipModuleLoadData},
    [MODULE_LOAD_DATA_EX] = {.name = "hipModuleLoadDataEx", .replacement = (void *)hipModuleLoadDataEx},
    [MODULE_LOAD_FAT_BINARY] = {.name = "hipModuleLoadFatBinary", .replacement = (void *)hipModuleLoadFatBinary},
    [MODULE_UNLOAD] = {.name = "hipModuleUnload", .replacement = (void *)hipModuleUnload},
    [LIBRARY_LOAD_DATA] = {.name = "hipLibraryLoadData", .replacement = (void *)hipLibraryLoadData},
    [LIBRARY_LOAD_FROM_FILE] = {.name = "hipLibraryLoadFromFile", .replacement = (void *)hipLibraryLoadFromFile},
    [LIBRARY_UNLOAD] = {.name = "hipLibraryUnload", .replacement = (void *)hipLibraryUnload},
    [GET_PROC_ADDRESS] = {.name = "hipGetProcAddress", .replacement = (void *)hipGetProcAddress},
    [REGISTER_FAT_BINARY] = {.name = "__hipRegisterFatBinary", .replacement = (void *)__hipRegisterFatBinary},
    {.name = NULL},
};
