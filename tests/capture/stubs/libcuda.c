/* The functions of CUDA's driver that load modules, without a device: whatever is an image is taken. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#undef cuGetProcAddress
#else
typedef int CUresult, CUdevice, CUjit_option, CUlibraryOption, CUdriverProcAddressQueryResult;
typedef void *CUmodule, *CUlibrary;
typedef uint64_t cuuint64_t;
#define CUDAAPI
enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_IMAGE = 200, CUDA_ERROR_NOT_FOUND = 500, CU_JIT_ERROR_LOG_BUFFER = 5 };
#endif

static int is_image(const void *image)
{
    static const char *const magics[] = {"\177ELF", "\x50\xed\x55\xba", "\xb1\x43\x62\x46", "//", ".version"};
    for (int index = 0; index < 5; index++)
        if (!memcmp(image, magics[index], strlen(magics[index]) < 4 ? 2 : 4))
            return 1;
    return 0;
}

static CUresult load(void **handle, const void *image, unsigned count, CUjit_option *options, void **values)
{
    if (!is_image(image)) {
        for (unsigned index = 0; index < count; index++)
            if (options[index] == CU_JIT_ERROR_LOG_BUFFER)
                strcpy(values[index], "ptxas fatal: not an image");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *handle = malloc(16);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned flags) { return flags ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS; }
CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) { *device = 0; return CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)device;
    strncpy(name, "Stub H200", (size_t)size);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *path)
{
    *module = malloc(16);
    return path ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) { return load((void **)module, image, 0, NULL, NULL); }
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
    return load((void **)module, image, count, options, values);
}
CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *image) { return load((void **)module, image, 0, NULL, NULL); }
CUresult CUDAAPI cuModuleUnload(CUmodule module) { free(module); return CUDA_SUCCESS; }
CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *options, void **values, unsigned count,
                                   CUlibraryOption *more, void **others, unsigned rest)
{
    (void)more, (void)others, (void)rest;
    return load((void **)library, image, count, options, values);
}
CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options, void **values, unsigned count,
                                       CUlibraryOption *more, void **others, unsigned rest)
{
    (void)options, (void)values, (void)count, (void)more, (void)others, (void)rest;
    *library = malloc(16);
    return path ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult CUDAAPI cuLibraryUnload(CUlibrary library) { free(library); return CUDA_SUCCESS; }

CUresult CUDAAPI cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status);

CUresult CUDAAPI cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status)
{
    (void)flags, (void)status;
#define ENTRY(NAME) {#NAME, (void *)NAME}
    static const struct { const char *name; void *function; } entries[] = {
        ENTRY(cuInit), ENTRY(cuModuleLoad), ENTRY(cuModuleLoadData), ENTRY(cuModuleLoadDataEx), ENTRY(cuModuleLoadFatBinary),
        ENTRY(cuModuleUnload), ENTRY(cuLibraryLoadData), ENTRY(cuLibraryLoadFromFile), ENTRY(cuLibraryUnload),
        ENTRY(cuCtxGetDevice), ENTRY(cuDeviceGetName),
    };
    *function = NULL;
    if (!strcmp(name, "cuGetProcAddress"))
        *function = version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
    for (size_t index = 0; index < sizeof entries / sizeof *entries; index++)
        if (!strcmp(name, entries[index].name))
            *function = entries[index].function;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

void **__cudaRegisterFatBinary(void *wrapper)
{
    static void *handle;
    handle = wrapper;
    return &handle;
}
