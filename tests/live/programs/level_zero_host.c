/* Creates and destroys Level Zero modules of SPIR-V files, the way that its arguments ask for:
 *
 *   level_zero_host MODE COUNT FILE...
 *
 * and prints what it saw, so that two runs can be compared. With -DBY_NAME it opens the loader and looks each function up, with
 * RTLD_DEEPBIND besides where -DDEEP is given; with -DBY_TABLE it takes the functions for modules from the loader's table itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef DEEP
#define DEEP 0
#endif
#ifdef BY_NAME
static void *loader;
#define ZE(name) ((__typeof__(&name))dlsym(loader, #name))
#else
#define ZE(name) name
#endif

static ze_context_handle_t context;
static ze_device_handle_t device;
static ze_pfnModuleCreate_t create;
static ze_pfnModuleDestroy_t destroy;

static void start(void)
{
    uint32_t count = 1;
    ze_driver_handle_t driver;
    ze_context_desc_t description = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
#ifdef BY_NAME
    loader = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL | DEEP);
#endif
    if (ZE(zeInit)(0) != 0 || ZE(zeDriverGet)(&count, &driver) != 0 || count == 0) {
        fprintf(stderr, "no Level Zero driver\n");
        _exit(9);
    }
    count = 1;
    ZE(zeDeviceGet)(driver, &count, &device);
    ZE(zeContextCreate)(driver, &description, &context);
    create = ZE(zeModuleCreate);
    destroy = ZE(zeModuleDestroy);
#ifdef BY_TABLE
    ze_module_dditable_t table = {0};
    if (zeGetModuleProcAddrTable(ZE_API_VERSION_1_3, &table) == 0) {
        create = table.pfnCreate;
        destroy = table.pfnDestroy;
    }
#endif
}

static unsigned char *read_file(const char *path, size_t *size)
{
    static unsigned char bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        _exit(8);
    }
    *size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return bytes;
}

static int errno_shown = 1;

static ze_module_handle_t made(const unsigned char *bytes, size_t size, int log_wanted)
{
    int spirv = size > 4 && bytes[0] == 3 && bytes[1] == 2;
    ze_module_handle_t module = NULL;
    ze_module_build_log_handle_t log = NULL;
    ze_module_desc_t description = {
        .stype = ZE_STRUCTURE_TYPE_MODULE_DESC, .format = spirv ? ZE_MODULE_FORMAT_IL_SPIRV : ZE_MODULE_FORMAT_NATIVE, .inputSize = size, .pInputModule = bytes};
    errno = 0;
    ze_result_t result = create(context, device, &description, &module, log_wanted ? &log : NULL);
    printf("created %x errno %d\n", result, errno_shown ? errno : 0);
    if (log) {
        size_t length = 0;
        ZE(zeModuleBuildLogGetString)(log, &length, NULL);
        printf("log %zu\n", length);
        ZE(zeModuleBuildLogDestroy)(log);
    }
    return result == 0 ? module : NULL;
}

static void create_and_destroy(const char *path)
{
    size_t size;
    const unsigned char *bytes = read_file(path, &size);
    ze_module_handle_t module = made(bytes, size, 0);
    uint32_t count = 1;
    const char *name = "";
    if (module) {
        ZE(zeModuleGetKernelNames)(module, &count, &name);
        printf("kernel %s\n", name);
        printf("destroyed %x\n", destroy(module));
    }
}

static const unsigned char *shared_bytes;
static size_t shared_size;

static void *in_thread(void *unused)
{
    ze_module_handle_t module = NULL;
    ze_module_desc_t description = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                                    .format = ZE_MODULE_FORMAT_IL_SPIRV,
                                    .inputSize = shared_size,
                                    .pInputModule = shared_bytes};
    (void)unused;
    return create(context, device, &description, &module, NULL) ? "failed" : NULL;
}

static void close_all(void)
{
    for (int number = 3; number < 2000; number++)
        close(number);
}

int main(int count, char **arguments)
{
    const char *mode = arguments[1];
    int number = atoi(arguments[2]);
    start();
    if (!strcmp(mode, "closed"))
        close_all();
    if (!strcmp(mode, "dropped") && (setgid(65534) != 0 || setuid(65534) != 0))
        return 8;
    if (!strcmp(mode, "dropped")) /* the driver fails otherwise to open a cache that is not there than one that may not be read */
        errno_shown = 0;
    if (!strcmp(mode, "threads")) {
        pthread_t threads[16];
        shared_bytes = read_file(arguments[3], &shared_size);
        for (int index = 0; index < number; index++)
            pthread_create(&threads[index], NULL, in_thread, NULL);
        for (int index = 0; index < number; index++) {
            void *result;
            pthread_join(threads[index], &result);
            printf("thread %d %s\n", index, result ? (char *)result : "built");
        }
    } else if (!strcmp(mode, "fails")) {
        size_t size;
        const unsigned char *bytes = read_file(arguments[3], &size);
        made(bytes, size, 0);
        made(bytes, size, 1);
    } else {
        for (int file = 3; file < count; file++)
            for (int index = 0; index < number; index++)
                create_and_destroy(arguments[file]);
    }
    fflush(stdout);
    if (!strcmp(mode, "fork")) {
        if (fork() == 0) {
            create_and_destroy(arguments[3]);
            fflush(stdout);
            _exit(0);
        }
        wait(NULL);
    }
    if (!strcmp(mode, "_exit"))
        _exit(41);
    signal(SIGSEGV, SIG_DFL); /* one of the drivers has a handler */
    if (!strcmp(mode, "segv"))
        raise(SIGSEGV);
    if (!strcmp(mode, "kill"))
        raise(SIGKILL);
    if (!strcmp(mode, "exec"))
        execl(arguments[0], arguments[0], "plain", "1", arguments[3], NULL);
    return 7;
}
