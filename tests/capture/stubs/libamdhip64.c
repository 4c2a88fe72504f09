/* The functions of HIP's runtime that load modules, without a device: whatever is an image is taken. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<hip/hip_runtime_api.h>)
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#define RESULT hipError_t
#define MODULE hipModule_t
#define OPTION hipJitOption
#else
typedef int RESULT, OPTION;
typedef void *MODULE;
#define hipErrorNotFound 500
#define hipErrorInvalidImage 200
#define hipSuccess 0
#endif

static RESULT load(void **handle, const void *image, unsigned count, OPTION *options, void **values)
{
    if (memcmp(image, "\177ELF", 4) && memcmp(image, "__CLANG_OFFLOAD_BUNDLE__", 24) && memcmp(image, "CCOB", 4)) {
        for (unsigned index = 0; index < count; index++)
            if (options[index] == 5)
                strcpy(values[index], "comgr: not an image");
        return hipErrorInvalidImage;
    }
    *handle = malloc(16);
    return hipSuccess;
}

RESULT hipInit(unsigned flags) { return flags ? hipErrorNotFound : hipSuccess; }
RESULT hipGetDevice(int *device) { *device = 0; return hipSuccess; }
RESULT hipDeviceGetName(char *name, int size, int device)
{
    (void)device;
    strncpy(name, "Stub MI300X", (size_t)size);
    return hipSuccess;
}
RESULT hipModuleLoad(MODULE *module, const char *path)
{
    *module = malloc(16);
    return path ? hipSuccess : hipErrorNotFound;
}
RESULT hipModuleLoadData(MODULE *module, const void *image) { return load((void **)module, image, 0, NULL, NULL); }
RESULT hipModuleLoadDataEx(MODULE *module, const void *image, unsigned count, OPTION *options, void **values)
{
    return load((void **)module, image, count, options, values);
}
RESULT hipModuleUnload(MODULE module) { free(module); return hipSuccess; }

/* The look-up by name came with ROCm 6, the others with 7: their signatures are theirs. */
int hipModuleLoadFatBinary(void **module, const void *image) { return load(module, image, 0, NULL, NULL); }
int hipLibraryLoadData(void **library, const void *image, void *options, void **values, unsigned count, void *more, void **others, unsigned rest)
{
    (void)more, (void)others, (void)rest;
    return load(library, image, count, options, values);
}
int hipLibraryLoadFromFile(void **library, const char *path, void *options, void **values, unsigned count, void *more, void **others, unsigned rest)
{
    (void)options, (void)values, (void)count, (void)more, (void)others, (void)rest;
    *library = malloc(16);
    return path ? 0 : 500;
}
int hipLibraryUnload(void *library) { free(library); return 0; }
int hipGetProcAddress_stub(const char *name, void **function, int version, uint64_t flags, void *status) __asm__("hipGetProcAddress");
int hipGetProcAddress_stub(const char *name, void **function, int version, uint64_t flags, void *status)
{
    (void)version, (void)flags, (void)status;
#define ENTRY(NAME) {#NAME, (void *)NAME}
    static const struct { const char *name; void *function; } entries[] = {
        ENTRY(hipInit), ENTRY(hipModuleLoad), ENTRY(hipModuleLoadData), ENTRY(hipModuleLoadDataEx), ENTRY(hipModuleLoadFatBinary),
        ENTRY(hipModuleUnload), ENTRY(hipLibraryLoadData), ENTRY(hipLibraryLoadFromFile), ENTRY(hipLibraryUnload),
    };
    *function = !strcmp(name, "hipGetProcAddress") ? (void *)hipGetProcAddress_stub : NULL;
    for (size_t index = 0; index < sizeof entries / sizeof *entries; index++)
        if (!strcmp(name, entries[index].name))
            *function = entries[index].function;
    return *function ? 0 : 500;
}

void **__hipRegisterFatBinary(const void *wrapper)
{
    static const void *handle;
    handle = wrapper;
    return (void **)&handle;
}
