/* Brings device code along in its file, as compilers put it there, and registers it with the runtime when it starts. REMOVED: its file is
 * gone by then. */
#include <stdio.h>
#include <unistd.h>

#ifdef HIP
#define REGISTER __hipRegisterFatBinary
#define MAGIC 0x48495046
#else
#define REGISTER __cudaRegisterFatBinary
#define MAGIC 0x466243b1
#endif
extern void **REGISTER(void *);
__asm__(".section .device_code, \"a\"\n.balign 16\n.globl code\ncode:\n.incbin \"" FILE_NAME "\"\n.byte 0\n.text\n");
extern const char code[];
static struct { unsigned magic, version; const void *data; void *rest; } wrapper = {MAGIC, 1, code, NULL};

__attribute__((constructor)) static void start(void)
{
#ifdef REMOVED
    char path[4096] = "";
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0 || unlink(path))
        _exit(66);
#endif
    REGISTER(&wrapper);
}
int main(void) { return puts("done") < 0; }
