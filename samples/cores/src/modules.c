/* Loads modules by the driver's functions: `modules WHAT FILE...`. WHAT: "fail" launches `idle` of the first and `filter` of the last,
 * which fails; "load" loads each in several ways and unloads all but one; "sleep" waits for a line of input then. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(const char *what, CUresult got)
{
    const char *name = NULL;
    if (got == CUDA_SUCCESS)
        return;
    cuGetErrorName(got, &name);
    printf("%s: %d %s\n", what, got, name ? name : "");
    fflush(stdout);
    exit(3);
}
#define MUST(CALL) must(#CALL, CALL)

static char *content(const char *path, size_t *size)
{
    FILE *stream = fopen(path, "rb");
    if (!stream)
        exit(4);
    fseek(stream, 0, SEEK_END);
    *size = (size_t)ftell(stream);
    rewind(stream);
    char *bytes = calloc(1, *size + 1);
    if (fread(bytes, 1, *size, stream) != *size)
        exit(5);
    fclose(stream);
    return bytes;
}

int main(int count, char **words)
{
    CUdevice device;
    CUcontext context;
    CUmodule modules[16];
    CUdeviceptr memory;
    CUfunction function;
    CUstream one, two;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc(&memory, 65536));
    MUST(cuMemsetD8(memory, 0, 65536));
    MUST(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    int loaded = 0, pitch = 64;
    for (int index = 2; index < count && loaded < 16; ++index) {
        size_t size;
        char *image = content(words[index], &size);
        if (strstr(words[index], ".debug.ptx")) {
            char log[1024] = "";
            CUjit_option options[] = {CU_JIT_GENERATE_DEBUG_INFO, CU_JIT_GENERATE_LINE_INFO, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
            void *values[] = {(void *)1, (void *)1, log, (void *)sizeof log};
            CUresult got = cuModuleLoadDataEx(&modules[loaded], image, 4, options, values);
            if (got) {
                printf("jit: %s\n", log);
                must("cuModuleLoadDataEx", got);
            }
        } else {
            MUST(cuModuleLoadData(&modules[loaded], image));
        }
        ++loaded;
        free(image);
    }
    if (!strcmp(words[1], "fail")) {
        void *first[] = {&memory};
        CUdeviceptr out = memory + 1024, field = memory + 4096;
        void *second[] = {&out, &field, &pitch};
        MUST(cuModuleGetFunction(&function, modules[0], "idle"));
        MUST(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, one, first, NULL));
        MUST(cuModuleGetFunction(&function, modules[loaded - 1], "filter"));
        MUST(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, two, second, NULL));
        MUST(cuStreamSynchronize(two));
    }
    if (!strcmp(words[1], "load")) {
        CUmodule again;
        CUlibrary library;
        size_t size;
        MUST(cuModuleLoad(&again, words[2]));
        MUST(cuModuleUnload(again));
        char *image = content(words[2], &size);
        MUST(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
        MUST(cuLibraryUnload(library));
        MUST(cuLibraryLoadFromFile(&library, words[2], NULL, NULL, 0, NULL, NULL, 0));
        CUdeviceptr out = memory + 1024, field = memory + 4096;
        (void)out, (void)field;
        MUST(cuModuleUnload(modules[0]));
        char log[1024] = "";
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {log, (void *)sizeof log};
        CUresult got = cuModuleLoadDataEx(&again, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry broken() { nonsense; }\n", 2, options, values);
        printf("broken: %d %s\n", got, log);
    }
    if (!strcmp(words[1], "sleep")) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    MUST(cuCtxSynchronize());
    puts("done");
    return 0;
}
