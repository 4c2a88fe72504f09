/* Preloaded into a program (LD_PRELOAD): sees its Level Zero modules, however it opened the loader.
 *
 * The loader asks its own exported zeGetModuleProcAddrTable for the table through which all its functions go, and this one is found
 * in front of it. Nothing else is exported, so that nothing else of a program is in the way.
 */
#include "level_zero.h"

/* The function of that name in the library that called, and the library. A search for the next one in the order of loading
 * (RTLD_NEXT) does not find a loader that was opened later, or for itself alone. */
static table_function in_caller(const void *caller, void **library)
{
    Dl_info info;
    if (!dladdr(caller, &info) || !info.dli_fname)
        return NULL;
    *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return *library ? (table_function)dlsym(*library, "zeGetModuleProcAddrTable") : NULL;
}

__attribute__((visibility("default"))) ze_result zeGetModuleProcAddrTable(uint32_t version, void **table)
{
    void *library = NULL;
    table_function next = in_caller(__builtin_return_address(0), &library);
    if (!next || next == zeGetModuleProcAddrTable) { /* the program itself calls */
        library = dlopen("libze_loader.so.1", RTLD_LAZY | RTLD_NOLOAD);
        next = library ? (table_function)dlsym(library, "zeGetModuleProcAddrTable") : NULL;
    }
    if (!next || next == zeGetModuleProcAddrTable)
        return 0x78000001; /* ZE_RESULT_ERROR_UNINITIALIZED, as where there is no loader */
    ze_result result = next(version, table);
    if (result == 0 && table)
        watch_table(table, library, PRELOAD);
    return result;
}
