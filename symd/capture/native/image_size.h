/* How many bytes a module has that a program gives to CUDA or HIP: the functions take its address alone. */
#ifndef SYMD_IMAGE_SIZE_H
#define SYMD_IMAGE_SIZE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CUDA_WRAPPER = 0x466243b1, HIP_WRAPPER = 0x48495046 };
enum { SECTION_IN_DEVICE = 0x7000000a, SECTION_OF_GLOBALS = 0x70000007 }; /* of cubins; without content in the file */
enum { BUNDLE_ENTRIES = 4096 };

/* What lies behind a registered wrapper {u32 magic, u32 version, pointer, pointer}, or the image itself. */
static const void *unwrapped(const void *image)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic != CUDA_WRAPPER && magic != HIP_WRAPPER)
        return image;
    const void *inner;
    memcpy(&inner, (const char *)image + 8, sizeof inner);
    return inner;
}

static uint64_t larger(uint64_t one, uint64_t other) { return one > other ? one : other; }

static uint64_t elf64_size(const unsigned char *image)
{
    Elf64_Ehdr head;
    memcpy(&head, image, sizeof head);
    uint64_t end = sizeof head;
    if (head.e_phoff && head.e_phentsize == sizeof(Elf64_Phdr)) {
        end = larger(end, head.e_phoff + (uint64_t)head.e_phnum * sizeof(Elf64_Phdr));
        for (unsigned index = 0; index < head.e_phnum; index++) {
            Elf64_Phdr segment;
            memcpy(&segment, image + head.e_phoff + index * sizeof segment, sizeof segment);
            end = larger(end, segment.p_offset + segment.p_filesz);
        }
    }
    if (head.e_shoff && head.e_shentsize == sizeof(Elf64_Shdr)) {
        end = larger(end, head.e_shoff + (uint64_t)head.e_shnum * sizeof(Elf64_Shdr));
        for (unsigned index = 0; index < head.e_shnum; index++) {
            Elf64_Shdr section;
            memcpy(&section, image + head.e_shoff + index * sizeof section, sizeof section);
            int cuda = head.e_machine == EM_CUDA && (section.sh_type == SECTION_IN_DEVICE || section.sh_type == SECTION_OF_GLOBALS);
            if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL && !cuda)
                end = larger(end, section.sh_offset + section.sh_size);
        }
    }
    return end;
}

/* A bundle of Clang's: a count, then for each entry offset, size, length of its name, name. */
static uint64_t bundle_size(const unsigned char *image)
{
    uint64_t count, entry[3], at = 32, end = 0;
    memcpy(&count, image + 24, sizeof count);
    if (count > BUNDLE_ENTRIES)
        return 0;
    for (uint64_t index = 0; index < count; index++) {
        memcpy(entry, image + at, sizeof entry);
        at += sizeof entry + entry[2];
        end = larger(end, larger(at, entry[0] + entry[1]));
    }
    return end;
}

static uint64_t compressed_bundle_size(const unsigned char *image)
{
    uint16_t version;
    uint32_t narrow;
    uint64_t wide;
    memcpy(&version, image + 4, sizeof version);
    memcpy(&narrow, image + 8, sizeof narrow);
    memcpy(&wide, image + 8, sizeof wide);
    return version == 2 ? narrow : version == 3 ? wide : 0; /* version 1 does not say */
}

/* 0 where nothing tells. The runtime has taken the image already, so that its tables are sound. */
static size_t image_size(const void *image)
{
    const unsigned char *bytes = image;
    uint64_t rest;
    if (bytes[0] == 0x7f && !memcmp(bytes, ELFMAG, SELFMAG))
        return bytes[EI_CLASS] == ELFCLASS64 ? elf64_size(bytes) : 0;
    if (bytes[0] == '_' && !strncmp(image, "__CLANG_OFFLOAD_BUNDLE__", 24))
        return bundle_size(bytes);
    if (bytes[0] == 'C' && !strncmp(image, "CCOB", 4))
        return compressed_bundle_size(bytes);
    if (bytes[0] == 0x50 && bytes[1] == 0xed && bytes[2] == 0x55 && bytes[3] == 0xba) {
        memcpy(&rest, bytes + 8, sizeof rest);
        return 16 + rest;
    }
    return strlen(image); /* PTX */
}

#endif
