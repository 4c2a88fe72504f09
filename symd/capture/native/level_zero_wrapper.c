/* A Level Zero driver that is another one (ZE_ENABLE_ALT_DRIVERS): it needs the real driver's library, DRIVER, and the loader, which
 * looks its functions up by name, finds all in that but the one that is here. It reaches programs that a preloaded library does
 * not: those with more rights than their caller, and those that open the loader with RTLD_DEEPBIND.
 */
#include "level_zero.h"

__attribute__((visibility("default"))) ze_result zeGetModuleProcAddrTable(uint32_t version, void **table)
{
    void *library = dlopen(DRIVER, RTLD_LAZY | RTLD_NOLOAD);
    table_function next = library ? (table_function)dlsym(library, "zeGetModuleProcAddrTable") : NULL;
    if (!next || next == zeGetModuleProcAddrTable)
        return 0x78000001; /* ZE_RESULT_ERROR_UNINITIALIZED */
    ze_result result = next(version, table);
    if (result == 0 && table)
        watch_table(table, library, WRAPPER_DRIVER);
    return result;
}
