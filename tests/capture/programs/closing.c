/* Opens LIBRARY, loads FILE by a function of it, and closes it, twice: `closing LIBRARY RUNTIME FILE`. It prints what the load answered,
 * whether RUNTIME is there still, and whether its place is taken, so that it comes to another the next time. With PLUGIN at its
 * compilation it is a library that is linked with the runtime. CUDA or HIP by the macros at its compilation. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef HIP
#define NAME(REST) hip##REST
#define PREFIX "hip"
#else
#define NAME(REST) cu##REST
#define PREFIX "cu"
#endif

#ifdef PLUGIN
extern int NAME(ModuleLoadData)(void **, const void *);
int load(void **handle, const void *image) { return NAME(ModuleLoadData)(handle, image); }
#else
static int twice(const char *library, const char *runtime, const void *image)
{
    void *handle = NULL, *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        return 66;
    int (*load)(void **, const void *) = (int (*)(void **, const void *))dlsym(opened, "load");
    if (!load)
        load = (int (*)(void **, const void *))dlsym(opened, PREFIX "ModuleLoadData");
    void *held = dlopen(runtime, RTLD_NOW | RTLD_NOLOAD);
    struct link_map *map = NULL;
    if (!held || dlinfo(held, RTLD_DI_LINKMAP, &map))
        return 67;
    void *place = (void *)map->l_addr;
    printf("loaded %d", load(&handle, image));
    dlclose(held);
    dlclose(opened);
    printf(" kept %d", dlopen(runtime, RTLD_NOW | RTLD_NOLOAD) != NULL);
    void *taken = mmap(place, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    printf(" moved %d\n", taken == place);
    return 0;
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 64;
    FILE *stream = fopen(arguments[3], "rb");
    char *image = calloc(1, 1 << 20);
    if (!stream || !fread(image, 1, (1 << 20) - 1, stream))
        return 65;
    int first = twice(arguments[1], arguments[2], image);
    return first ? first : twice(arguments[1], arguments[2], image);
}
#endif
