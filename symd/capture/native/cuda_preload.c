/* Preloaded into a program (LD_PRELOAD): sees what it loads through CUDA's driver, and what it registers with the runtime.
 *
 * Signatures are those of cuda.h, which need not be installed. A runtime that is linked into the program is not seen registering, because it
 * calls itself; what it registered is found in the section where nvcc puts the wrappers, once it looks the driver's functions up.
 */
#define API CUDA
#define RUNTIME "libcuda.so"
#define WRAPPER_SECTION ".nvFatBinSegment"
#define CURRENT_DEVICE "cuCtxGetDevice"
#define DEVICE_NAME "cuDeviceGetName"
#include "runtime_functions.h"

typedef int result;            /* CUresult; 0 is success */
enum { NOT_INITIALIZED = 3 }; /* CUDA_ERROR_NOT_INITIALIZED */

enum index {
    MODULE_LOAD, MODULE_LOAD_DATA, MODULE_LOAD_DATA_EX, MODULE_LOAD_FAT_BINARY, MODULE_UNLOAD,
    LIBRARY_LOAD_DATA, LIBRARY_LOAD_FROM_FILE, LIBRARY_UNLOAD,
    GET_PROC_ADDRESS, GET_PROC_ADDRESS_V2, REGISTER_FAT_BINARY,
};

EXPORTED result cuModuleLoad(void **module, const char *path)
{
    result (*next)(void **, const char *) = (result(*)(void **, const char *))original(MODULE_LOAD);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(module, path);
    tell_outcome(outcome, module, NULL, path, 0, NULL, NULL);
    return outcome;
}

EXPORTED result cuModuleLoadData(void **module, const void *image)
{
    result (*next)(void **, const void *) = (result(*)(void **, const void *))original(MODULE_LOAD_DATA);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(module, image);
    tell_outcome(outcome, module, image, NULL, 0, NULL, NULL);
    return outcome;
}

EXPORTED result cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values)
{
    result (*next)(void **, const void *, unsigned, int *, void **) =
        (result(*)(void **, const void *, unsigned, int *, void **))original(MODULE_LOAD_DATA_EX);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(module, image, count, options, values);
    tell_outcome(outcome, module, image, NULL, count, options, values);
    return outcome;
}

EXPORTED result cuModuleLoadFatBinary(void **module, const void *image)
{
    result (*next)(void **, const void *) = (result(*)(void **, const void *))original(MODULE_LOAD_FAT_BINARY);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(module, image);
    tell_outcome(outcome, module, image, NULL, 0, NULL, NULL);
    return outcome;
}

/* Told before: another thread may get the same handle as soon as the driver has let it go. */
EXPORTED result cuModuleUnload(void *module)
{
    result (*next)(void *) = (result(*)(void *))original(MODULE_UNLOAD);
    if (!next)
        return NOT_INITIALIZED;
    tell_unloaded(module);
    return next(module);
}

EXPORTED result cuLibraryLoadData(void **library, const void *image, int *options, void **values, unsigned count, int *more,
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

EXPORTED result cuLibraryLoadFromFile(void **library, const char *path, int *options, void **values, unsigned count, int *more,
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

EXPORTED result cuLibraryUnload(void *library)
{
    result (*next)(void *) = (result(*)(void *))original(LIBRARY_UNLOAD);
    if (!next)
        return NOT_INITIALIZED;
    tell_unloaded(library);
    return next(library);
}

static void replace(const char *name, void **function)
{
    void *replacement = function ? replaced(name, *function) : NULL;
    if (replacement)
        *function = replacement;
}

EXPORTED result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    result (*next)(const char *, void **, int, uint64_t) =
        (result(*)(const char *, void **, int, uint64_t))original(GET_PROC_ADDRESS);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(name, function, version, flags);
    if (outcome == 0)
        replace(name, function);
    return outcome;
}

/* Asked for "cuGetProcAddress" it answers with this one's original, which has one argument more than that. */
EXPORTED result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, void *status)
{
    result (*next)(const char *, void **, int, uint64_t, void *) =
        (result(*)(const char *, void **, int, uint64_t, void *))original(GET_PROC_ADDRESS_V2);
    if (!next)
        return NOT_INITIALIZED;
    result outcome = next(name, function, version, flags, status);
    if (outcome == 0 && name)
        replace(!strcmp(name, "cuGetProcAddress") && version >= 12000 ? "cuGetProcAddress_v2" : name, function);
    return outcome;
}

EXPORTED void **__cudaRegisterFatBinary(void *wrapper)
{
    void **(*next)(void *) = (void **(*)(void *))original(REGISTER_FAT_BINARY);
    void **handle = next ? next(wrapper) : NULL;
    if (next)
        tell_registered(wrapper);
    return handle;
}

static struct watched watched[] = {
    [MODULE_LOAD] = {.name = "cuModuleLoad", .replacement = (void *)cuModuleLoad},
    [MODULE_LOAD_DATA] = {.name = "cuModuleLoadData", .replacement = (void *)cuModuleLoadData},
    [MODULE_LOAD_DATA_EX] = {.name = "cuModuleLoadDataEx", .replacement = (void *)cuModuleLoadDataEx},
    [MODULE_LOAD_FAT_BINARY] = {.name = "cuModuleLoadFatBinary", .replacement = (void *)cuModuleLoadFatBinary},
    [MODULE_UNLOAD] = {.name = "cuModuleUnload", .replacement = (void *)cuModuleUnload},
    [LIBRARY_LOAD_DATA] = {.name = "cuLibraryLoadData", .replacement = (void *)cuLibraryLoadData},
    [LIBRARY_LOAD_FROM_FILE] = {.name = "cuLibraryLoadFromFile", .replacement = (void *)cuLibraryLoadFromFile},
    [LIBRARY_UNLOAD] = {.name = "cuLibraryUnload", .replacement = (void *)cuLibraryUnload},
    [GET_PROC_ADDRESS] = {.name = "cuGetProcAddress", .replacement = (void *)cuGetProcAddress},
    [GET_PROC_ADDRESS_V2] = {.name = "cuGetProcAddress_v2", .replacement = (void *)cuGetProcAddress_v2},
    [REGISTER_FAT_BINARY] = {.name = "__cudaRegisterFatBinary", .replacement = (void *)__cudaRegisterFatBinary},
    {.name = NULL},
};
