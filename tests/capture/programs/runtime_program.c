/* Loads FILE by every function that loads, and unloads it: `runtime_program HOW FILE`, where HOW is how the functions are found. It prints
 * what each call answered. CUDA or HIP by the macros at its compilation. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HIP
#define LIBRARY "libamdhip64.so.6"
#define NAME(REST) hip##REST
#define PREFIX "hip"
#define LOOK_UP "hipGetProcAddress"
#define REGISTER __hipRegisterFatBinary
#define MAGIC 0x48495046
#else
#define LIBRARY "libcuda.so.1"
#define NAME(REST) cu##REST
#define PREFIX "cu"
#define LOOK_UP "cuGetProcAddress_v2"
#define REGISTER __cudaRegisterFatBinary
#define MAGIC 0x466243b1
#endif

#define LIBRARY_ARGUMENTS void *, void **, unsigned, void *, void **, unsigned
extern int NAME(ModuleLoad)(void **, const char *) __attribute__((weak));
extern int NAME(ModuleLoadData)(void **, const void *) __attribute__((weak));
extern int NAME(ModuleLoadDataEx)(void **, const void *, unsigned, int *, void **) __attribute__((weak));
extern int NAME(ModuleLoadFatBinary)(void **, const void *) __attribute__((weak));
extern int NAME(ModuleUnload)(void *) __attribute__((weak));
extern int NAME(LibraryLoadData)(void **, const void *, LIBRARY_ARGUMENTS) __attribute__((weak));
extern int NAME(LibraryLoadFromFile)(void **, const char *, LIBRARY_ARGUMENTS) __attribute__((weak));
extern int NAME(LibraryUnload)(void *) __attribute__((weak));
extern void **REGISTER(void *) __attribute__((weak));

typedef int (*look_up)(const char *, void **, int, uint64_t, void *);
static const char *how;

static void *function(const char *name, void *linked)
{
    void *found = NULL;
    if (!strcmp(how, "linked"))
        return linked;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        puts(dlerror());
        exit(1);
    }
    if (!strcmp(how, "dlsym"))
        return dlsym(library, name);
    look_up look = (look_up)dlsym(library, LOOK_UP);
    if (!strcmp(how, "twice")) { /* as CUDA's runtime does: the look-up is looked up */
        void *again = NULL;
        int status = look(PREFIX "GetProcAddress", &again, 12000, 0, NULL);
        if (status)
            exit(2);
        look = (look_up)again;
    }
    return look(name, &found, 12000, 0, NULL) ? NULL : found;
}
#define FUNCTION(REST) ((__typeof__(&NAME(REST)))function(PREFIX #REST, (void *)NAME(REST)))

int main(int count, char **arguments)
{
    static char log[256];
    static struct { unsigned magic, version; const void *data; void *rest; } wrapper = {MAGIC, 1, NULL, NULL};
    void *handle = NULL, *values[] = {log, (void *)(uintptr_t)sizeof log};
    int options[] = {5, 6};
    if (count < 3)
        return 64;
    how = arguments[1];
    FILE *stream = fopen(arguments[2], "rb");
    fseek(stream, 0, SEEK_END);
    long size = ftell(stream);
    char *image = calloc(1, (size_t)size + 1); /* text ends with 0 */
    rewind(stream);
    if (fread(image, 1, (size_t)size, stream) != (size_t)size)
        return 65;
    fclose(stream);

    errno = 77;
    printf("load %d", FUNCTION(ModuleLoad)(&handle, arguments[2]));
    printf(" unload %d", FUNCTION(ModuleUnload)(handle));
    printf(" data %d", FUNCTION(ModuleLoadData)(&handle, image));
    printf(" unload %d", FUNCTION(ModuleUnload)(handle));
    printf(" ex %d", FUNCTION(ModuleLoadDataEx)(&handle, image, 2, options, values));
    printf(" fat %d", FUNCTION(ModuleLoadFatBinary)(&handle, image));
    wrapper.data = image;
    printf(" library %d", FUNCTION(LibraryLoadData)(&handle, image, NULL, NULL, 0, NULL, NULL, 0));
    printf(" unload %d", FUNCTION(LibraryUnload)(handle));
    printf(" file %d", FUNCTION(LibraryLoadFromFile)(&handle, arguments[2], NULL, NULL, 0, NULL, NULL, 0));
    printf(" failed %d", FUNCTION(ModuleLoadDataEx)(&handle, "no image", 2, options, values));
    printf(" log '%s' errno %d\n", log, errno);
    if (!strcmp(how, "linked") && REGISTER)
        printf("registered %d\n", *REGISTER(&wrapper) == (void *)&wrapper);
    return 7;
}
