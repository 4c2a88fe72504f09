/* Builds OpenCL programs and releases them, the way that its arguments ask for:
 *
 *   opencl_host [MODE [COUNT]]
 *
 * and prints what it saw, so that two runs can be compared. With -DBY_NAME it opens the loader and looks each function up.
 */
#define CL_TARGET_OPENCL_VERSION 210
#define _GNU_SOURCE
#include <CL/cl.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef BY_NAME
static void *loader;
#define CL(name) ((__typeof__(&name))dlsym(loader, #name))
#else
#define CL(name) name
#endif

static int errno_shown = 1;
static cl_context context;
static cl_device_id device;

static const char *text(int number, char *room, size_t size)
{
    snprintf(room, size,
             "float helper(float x) { return x * %d.0f + 1.0f; }\n"
             "kernel void scale_%d(global float *data) {\n"
             "    size_t i = get_global_id(0);\n"
             "    data[i] = helper(data[i]);\n"
             "}\n",
             number + 2, number);
    return room;
}

static void start(void)
{
    cl_platform_id platform;
    cl_int error;
#ifdef BY_NAME
    loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
#endif
    if (CL(clGetPlatformIDs)(1, &platform, NULL) != 0 || CL(clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != 0) {
        fprintf(stderr, "no OpenCL device\n");
        exit(9);
    }
    context = CL(clCreateContext)(NULL, 1, &device, NULL, NULL, &error);
}

static cl_program made(const char *source, const char *options)
{
    cl_int error;
    cl_program program = CL(clCreateProgramWithSource)(context, 1, &source, NULL, &error);
    errno = 0;
    error = CL(clBuildProgram)(program, 1, &device, options, NULL, NULL);
    char log[400] = "";
    CL(clGetProgramBuildInfo)(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
    printf("built %d errno %d log %zu\n", error, errno_shown ? errno : 0, strlen(log));
    return program;
}

static void use(cl_program program)
{
    cl_int error;
    char names[200] = "";
    CL(clGetProgramInfo)(program, CL_PROGRAM_KERNEL_NAMES, sizeof names - 1, names, NULL);
    cl_kernel kernel = CL(clCreateKernel)(program, names, &error);
    printf("kernel %s %d\n", names, error);
    CL(clReleaseProgram)(program);
    if (kernel)
        CL(clReleaseKernel)(kernel);
}

static void build_and_use(int number)
{
    char room[1000];
    use(made(text(number, room, sizeof room), "-g"));
}

static void *in_thread(void *number)
{
    char room[1000];
    cl_int error;
    const char *source = text((int)(long)number, room, sizeof room);
    cl_program program = CL(clCreateProgramWithSource)(context, 1, &source, NULL, &error);
    error = CL(clBuildProgram)(program, 1, &device, "-g", NULL, NULL);
    return error ? "failed" : NULL;
}

static void close_all(void)
{
    for (int number = 3; number < 2000; number++)
        close(number);
}

static void CL_CALLBACK told(cl_program program, void *user_data)
{
    cl_build_status status = 1;
    CL(clGetProgramBuildInfo)(program, device, CL_PROGRAM_BUILD_STATUS, sizeof status, &status, NULL);
    printf("told %d %s\n", status, (const char *)user_data);
}

static void linked(void)
{
    char room[1000];
    cl_int error;
    const char *source = text(1, room, sizeof room);
    cl_program object = CL(clCreateProgramWithSource)(context, 1, &source, NULL, &error);
    error = CL(clCompileProgram)(object, 1, &device, "-g", 0, NULL, NULL, NULL, NULL);
    printf("compiled %d\n", error);
    cl_program program = CL(clLinkProgram)(context, 1, &device, "", 1, &object, NULL, NULL, &error);
    printf("linked %d\n", error);
    CL(clReleaseProgram)(object);
    use(program);
}

static void from_binary(void)
{
    char room[1000];
    cl_int error, status;
    size_t size;
    cl_program program = made(text(1, room, sizeof room), "-g");
    CL(clGetProgramInfo)(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
    unsigned char *binary = malloc(size);
    CL(clGetProgramInfo)(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL);
    use(program);
    program = CL(clCreateProgramWithBinary)(context, 1, &device, &size, (const unsigned char **)&binary, &status, &error);
    error = CL(clBuildProgram)(program, 1, &device, "", NULL, NULL);
    printf("from binary %d\n", error);
    use(program);
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "plain";
    int number = count > 2 ? atoi(arguments[2]) : 1;
    char room[1000];
    if (!strcmp(mode, "fork-first") && fork() == 0) {
        start();
        build_and_use(5);
        exit(0);
    }
    start();
    if (!strcmp(mode, "closed"))
        close_all();
    if (!strcmp(mode, "dropped") && (setgid(65534) != 0 || setuid(65534) != 0))
        return 8;
    if (!strcmp(mode, "dropped")) /* the driver fails otherwise to open a cache that is not there than one that may not be read */
        errno_shown = 0;
    if (!strcmp(mode, "chroot") && chroot("/proc") != 0)
        return 8;
    if (!strcmp(mode, "threads")) {
        pthread_t threads[16];
        for (long index = 0; index < number; index++)
            pthread_create(&threads[index], NULL, in_thread, (void *)index);
        for (int index = 0; index < number; index++) {
            void *result;
            pthread_join(threads[index], &result);
            printf("thread %d %s\n", index, result ? (char *)result : "built");
        }
    } else if (!strcmp(mode, "fails")) {
        CL(clReleaseProgram)(made("kernel void broken(global int *p) { p[0] = not_declared; }\n", "-g"));
    } else if (!strcmp(mode, "same")) {
        build_and_use(7);
        build_and_use(7);
    } else if (!strcmp(mode, "again")) {
        cl_program program = made(text(3, room, sizeof room), "-g");
        printf("again %d\n", CL(clBuildProgram)(program, 1, &device, "", NULL, NULL));
        use(program);
    } else if (!strcmp(mode, "no-lines")) {
        use(made(text(4, room, sizeof room), ""));
    } else if (!strcmp(mode, "callback")) {
        cl_int error;
        const char *source = text(6, room, sizeof room);
        cl_program program = CL(clCreateProgramWithSource)(context, 1, &source, NULL, &error);
        printf("built %d\n", CL(clBuildProgram)(program, 1, &device, "-g", told, "me"));
        use(program);
    } else if (!strcmp(mode, "link")) {
        linked();
    } else if (!strcmp(mode, "binary")) {
        from_binary();
    } else if (!strcmp(mode, "fork")) {
        build_and_use(1);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            _exit(3);
        int status;
        waitpid(child, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
        build_and_use(2);
    } else {
        for (int index = 0; index < number; index++)
            build_and_use(index);
    }
    fflush(stdout);
    if (!strcmp(mode, "fork-first"))
        wait(NULL);
    if (!strcmp(mode, "_exit"))
        _exit(41);
    signal(SIGSEGV, SIG_DFL); /* one of the drivers has a handler */
    if (!strcmp(mode, "segv"))
        raise(SIGSEGV);
    if (!strcmp(mode, "kill"))
        raise(SIGKILL);
    if (!strcmp(mode, "abort"))
        abort();
    if (!strcmp(mode, "exec"))
        execl(arguments[0], arguments[0], "plain", "2", NULL);
    if (!strcmp(mode, "held")) { /* a kernel holds its program */
        cl_int error;
        cl_program program = made(text(8, room, sizeof room), "-g");
        cl_kernel kernel = CL(clCreateKernel)(program, "scale_8", &error);
        CL(clReleaseProgram)(program);
        usleep(50000);
        CL(clReleaseKernel)(kernel);
    }
    return 7;
}
