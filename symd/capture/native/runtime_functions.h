/* Functions of a GPU runtime (API, whose library is called RUNTIME and has the functions CURRENT_DEVICE and DEVICE_NAME), watched however a program reaches them: linked, by dlsym, or by the runtime's own look-up.
 *
 * A preloaded function is found in front of the runtime's by a program that is linked with it. One that asks dlsym with a handle finds
 * the runtime's, so that dlsym is replaced too. It must look as if the program had called it itself: what it finds for RTLD_NEXT
 * depends on who calls. So it jumps to the real one, with nothing of its own on the stack.
 */
#ifndef SYMD_RUNTIME_FUNCTIONS_H
#define SYMD_RUNTIME_FUNCTIONS_H

#include "handover.h"
#include "image_size.h"

#include <dlfcn.h>
#include <link.h>

#define EXPORTED __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))

enum { ERROR_LOG = 5, ERROR_LOG_SIZE = 6 }; /* of CUjit_option and hipJitOption */

/* One function: its name, what is called instead, and the runtime's own where that is known. */
struct watched {
    const char *name;
    void *replacement;
    _Atomic(void *) original;
};
/* The library's, ended by one without a name. */
static struct watched watched[];

typedef void *(*dlsym_function)(void *, const char *);
HIDDEN dlsym_function symd_real_dlsym;

static void find_real_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    dlsym_function found = NULL;
    for (size_t index = 0; !found && index < sizeof versions / sizeof *versions; index++)
        found = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", versions[index]);
    dlsym_function next = found ? (dlsym_function)found(RTLD_NEXT, "dlsym") : NULL; /* another library's like this one */
    symd_real_dlsym = next ? next : found;
}

static struct watched *watched_by_name(const char *name)
{
    for (struct watched *each = watched; each->name; each++)
        if (!strcmp(each->name, name))
            return each;
    return NULL;
}

static void tell_carried(void);

/* The replacement of a function that was found, which is kept as the original; NULL where it is not watched, or is the replacement. */
static void *replaced(const char *name, void *found)
{
    struct watched *function = name && found ? watched_by_name(name) : NULL;
    if (!function || found == function->replacement)
        return NULL;
    function->original = found;
    begin_handover();
    return function->replacement;
}

/* What dlsym answers instead of what it would; NULL: let the real one answer. */
HIDDEN void *symd_choose(void *handle, const char *name)
{
    if (!symd_real_dlsym)
        find_real_dlsym();
    if (handle == RTLD_NEXT || !name || !watched_by_name(name))
        return NULL;
    int error = errno;
    void *answer = replaced(name, symd_real_dlsym(handle, name));
    if (answer)
        tell_carried();
    errno = error;
    return answer;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call symd_choose\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    testq %rax, %rax\n"
        "    jne 1f\n"
        "    movq symd_real_dlsym(%rip), %rax\n"
        "    jmpq *%rax\n"
        "1:  ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        "    stp x29, x30, [sp, #-32]!\n"
        "    stp x0, x1, [sp, #16]\n"
        "    bl symd_choose\n"
        "    mov x16, x0\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #32\n"
        "    cbz x16, 1f\n"
        "    mov x0, x16\n"
        "    ret\n"
        "1:  adrp x16, symd_real_dlsym\n"
        "    ldr x16, [x16, #:lo12:symd_real_dlsym]\n"
        "    br x16\n"
        ".size dlsym, .-dlsym\n");
#endif

static int find_runtime(struct dl_phdr_info *object, size_t size, void *argument)
{
    const char *slash = strrchr(object->dlpi_name, '/');
    (void)size;
    if (strncmp(slash ? slash + 1 : object->dlpi_name, RUNTIME, sizeof RUNTIME - 1))
        return 0;
    *(const char **)argument = object->dlpi_name;
    return 1;
}

/* A function of a library that is loaded already, and that is not held here: the program may close it. */
static void *function_of(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    void *found = library ? symd_real_dlsym(library, name) : NULL;
    if (library)
        dlclose(library);
    return found;
}

/* The runtime's own function. A program that is linked with the runtime never asked for it; and a runtime that finds its own functions as
 * its programs do answers a look-up with the replacement. What was found in a library that was closed since is looked for again. */
static void *original(unsigned index)
{
    Dl_info info;
    void *known = watched[index].original, *found;
    if (known && dladdr(known, &info))
        return known;
    if (!symd_real_dlsym)
        find_real_dlsym();
    found = symd_real_dlsym(RTLD_NEXT, watched[index].name);
    const char *runtime = NULL;
    if (!found && dl_iterate_phdr(find_runtime, &runtime))
        found = function_of(runtime, watched[index].name);
    if (!found || found == watched[index].replacement)
        return known;
    watched[index].original = found;
    begin_handover();
    return found;
}

/* Another function of the library whose functions are watched. */
static void *beside(const char *name)
{
    Dl_info info;
    void *known = NULL;
    for (struct watched *each = watched; each->name && !known; each++)
        known = each->original;
    if (!known || !dladdr(known, &info) || !info.dli_fname)
        return NULL;
    return function_of(info.dli_fname, name);
}

/* The name of the device that the thread works with, or NULL. */
static const char *device_name(char *room, int size)
{
    int (*current)(int *) = (int (*)(int *))beside(CURRENT_DEVICE);
    int (*name)(char *, int, int) = (int (*)(char *, int, int))beside(DEVICE_NAME);
    int device;
    return current && name && current(&device) == 0 && name(room, size, device) == 0 ? room : NULL;
}

static void tell_unloaded(const void *handle)
{
    struct record record;
    int error = errno;
    begin_record(&record, UNLOADED, API, PRELOAD, handle, 0);
    hand_over(&record);
    errno = error;
}

static void tell_failed(int code, const char *log, size_t room)
{
    struct record record;
    begin_record(&record, BUILD_FAILED, API, PRELOAD, NULL, code);
    if (log && room)
        add_field(&record, BUILD_LOG, 0, 0, log, strnlen(log, room));
    hand_over(&record);
}

static void tell_loaded(const void *handle, const char *device, const void *image, size_t size)
{
    struct record record;
    if (!size)
        return;
    begin_record(&record, LOADED, API, PRELOAD, handle, 0);
    if (device)
        add_text(&record, DEVICE, device);
    add_field(&record, DATA, NATIVE_BINARY, 0, image, size);
    hand_over(&record);
}

/* The same of a file, which is read whole. */
static void tell_loaded_file(const void *handle, const char *device, const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
        void *image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (image != MAP_FAILED) {
            tell_loaded(handle, device, image, (size_t)status.st_size);
            munmap(image, (size_t)status.st_size);
        }
    }
    close(file);
}

/* What a call that loads did. Of `options` those with the driver's words are looked for. */
static void tell_outcome(int outcome, void **handle, const void *image, const char *path, unsigned count, const int *options, void **values)
{
    char room[256];
    int error = errno;
    if (outcome == 0 && handle) {
        const char *device = device_name(room, sizeof room);
        if (path)
            tell_loaded_file(*handle, device, path);
        else if (image)
            tell_loaded(*handle, device, unwrapped(image), image_size(unwrapped(image)));
    } else {
        const char *log = NULL;
        size_t size = 0;
        for (unsigned index = 0; options && values && index < count; index++) {
            if (options[index] == ERROR_LOG)
                log = values[index];
            if (options[index] == ERROR_LOG_SIZE)
                size = (size_t)(uintptr_t)values[index];
        }
        tell_failed(outcome, log, size);
    }
    errno = error;
}

struct place {
    const char *address;
    const char *file;
    uint64_t offset;
};

static int find_place(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct place *place = argument;
    (void)size;
    for (int index = 0; index < object->dlpi_phnum; index++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[index];
        const char *start = (const char *)object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && place->address >= start && place->address < start + segment->p_filesz) {
            place->file = object->dlpi_name && *object->dlpi_name ? object->dlpi_name : "/proc/self/exe";
            place->offset = segment->p_offset + (uint64_t)(place->address - start);
            return 1;
        }
    }
    return 0;
}

/* A code object URI: letters that would end the path in it are written as %XX. 0 where there is no such file any more. */
static int add_source(struct record *record, const struct place *place, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    char real[4096], text[3 * sizeof real + 96];
    size_t at = 0;
    if (!realpath(place->file, real))
        return 0;
    for (const char *each = "file://"; *each; each++)
        text[at++] = *each;
    for (const unsigned char *each = (const unsigned char *)real; *each; each++) {
        if (*each > ' ' && *each < 0x7f && !strchr("%#?", *each)) {
            text[at++] = (char)*each;
        } else {
            text[at++] = '%';
            text[at++] = digits[*each >> 4];
            text[at++] = digits[*each & 15];
        }
    }
    snprintf(text + at, sizeof text - at, "#offset=%llu&size=%zu", (unsigned long long)place->offset, size);
    add_text(record, SOURCE, text);
    return 1;
}

enum { WRAPPERS = 4096 };

/* Whether a wrapper is heard of for the first time; all those beyond so many are. */
static int is_new(const void *wrapper)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const void *known[WRAPPERS];
    static unsigned count;
    unsigned index = 0;
    pthread_mutex_lock(&lock);
    while (index < count && known[index] != wrapper)
        index++;
    int new = index == count;
    if (new && count < WRAPPERS)
        known[count++] = wrapper;
    pthread_mutex_unlock(&lock);
    return new;
}

/* Code that a program brings along and the runtime loads when it is needed. It lies in a file as a rule, and only its place is told: a
 * program may bring gigabytes. Where that file is gone the bytes are told. */
static void tell_registered(const void *wrapper)
{
    struct record record;
    int error = errno;
    const void *image = wrapper ? unwrapped(wrapper) : NULL;
    size_t size = image ? image_size(image) : 0;
    struct place place = {.address = image};
    if (size && is_new(wrapper)) {
        begin_record(&record, FOUND, API, PRELOAD, NULL, 0);
        if (!dl_iterate_phdr(find_place, &place) || !add_source(&record, &place, size))
            add_field(&record, DATA, NATIVE_BINARY, 0, image, size);
        hand_over(&record);
    }
    errno = error;
}

#ifdef WRAPPER_SECTION
enum { MOST_NAMES = 1 << 20, WRAPPER_BYTES = 24 };

/* `size` bytes of a file; NULL where it does not have them. */
static void *part_of_file(int file, uint64_t offset, size_t size)
{
    char *bytes = malloc(size + 1);
    if (bytes && pread(file, bytes, size, (off_t)offset) == (ssize_t)size) {
        bytes[size] = 0;
        return bytes;
    }
    free(bytes);
    return NULL;
}

static void tell_section(const struct dl_phdr_info *object, const Elf64_Shdr *section)
{
    for (int index = 0; index < object->dlpi_phnum; index++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[index];
        if (segment->p_type != PT_LOAD || section->sh_addr < segment->p_vaddr ||
            section->sh_addr + section->sh_size > segment->p_vaddr + segment->p_filesz)
            continue;
        const char *at = (const char *)object->dlpi_addr + section->sh_addr, *end = at + section->sh_size;
        for (; at + WRAPPER_BYTES <= end; at += WRAPPER_BYTES)
            if (unwrapped(at) != at)
                tell_registered(at);
    }
}

/* The section table is not loaded, so that the object's file is asked where the wrappers are. */
static int look_into(struct dl_phdr_info *object, size_t unused, void *argument)
{
    Elf64_Ehdr head;
    int file = open(object->dlpi_name && *object->dlpi_name ? object->dlpi_name : "/proc/self/exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    (void)unused, (void)argument;
    if (file < 0)
        return 0;
    Elf64_Shdr *sections = NULL;
    char *names = NULL;
    if (pread(file, &head, sizeof head, 0) == sizeof head && !memcmp(head.e_ident, ELFMAG, SELFMAG) &&
        head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_shentsize == sizeof *sections && head.e_shstrndx < head.e_shnum)
        sections = part_of_file(file, head.e_shoff, head.e_shnum * sizeof *sections);
    size_t size = sections ? sections[head.e_shstrndx].sh_size : 0;
    if (size && size < MOST_NAMES)
        names = part_of_file(file, sections[head.e_shstrndx].sh_offset, size);
    for (unsigned index = 0; names && index < head.e_shnum; index++)
        if (sections[index].sh_name < size && !strcmp(names + sections[index].sh_name, WRAPPER_SECTION) &&
            (sections[index].sh_flags & SHF_ALLOC) && sections[index].sh_type == SHT_PROGBITS)
            tell_section(object, &sections[index]);
    free(names);
    free(sections);
    close(file);
    return 0;
}

/* A runtime that is linked into a program registers what that carries with itself, and then looks the driver's functions up. */
static void tell_carried(void) { dl_iterate_phdr(look_into, NULL); }
#else
static void tell_carried(void) {}
#endif

#endif
