/* A program to debug. Like a GPU runtime, it has a code object in memory, knows where the device loaded it, and reports the device
   address of a fault:

       cc -g samples/clients/fault.c -o fault
       ./fault samples/amdgpu/bin/v4-gfx900.co 0x1998 */

#include <stdio.h>
#include <stdlib.h>

static unsigned char *code_object;
static size_t code_object_size;
static unsigned long loaded_at = 0x7f0000100000;
static unsigned long fault;

static void report_fault(void)
{
    printf("memory fault at 0x%lx\n", fault);
}

int main(int count, char **words)
{
    FILE *file = count == 3 ? fopen(words[1], "rb") : NULL;
    if (file == NULL) {
        fprintf(stderr, "usage: fault CODE_OBJECT OFFSET\n");
        return 2;
    }
    code_object = malloc(1 << 20);
    code_object_size = fread(code_object, 1, 1 << 20, file);
    fault = loaded_at + strtoul(words[2], NULL, 0);
    report_fault();
    return 0;
}
