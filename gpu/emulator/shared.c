// shared.c -- a block's shared memory: one arena, arrays one behind the other with red zones between.
//
// Fresh arrays hold NaN bytes, in every block. The limit is that of the GPU that EMULATED_GPU names.
#include "gpu/emulator/gpus.h"
#include "gpu/emulator/runtime.h"

#include <string.h>

static const size_t static_limit = 48 * 1024; // of every GPU

void emu_shared_reset(emu_block *block) {
    block->shared_used = block->shared + 128; // a red zone before the first array, too
    block->shared_count = 0;
    block->shared_static_bytes = 0;
    block->shared_bytes = block->launch->dynamic_shared_bytes;
}

static emu_shared_place *place_of(emu_block *block, const emu_shared_array *declaration) {
    for (int i = 0; i < block->shared_count; i++) {
        emu_shared_place *place = &block->shared_array[i];
        // All dynamic declarations name the same memory, as on the GPU.
        if (place->declaration == declaration ||
            (declaration->dynamic && place->declaration->dynamic))
            return place;
    }
    return NULL;
}

void *emu_shared(const emu_shared_array *declaration) {
    emu_thread *thread = emu_current();
    emu_block *block = thread->block;
    thread->site = declaration->site;
    emu_shared_place *place = place_of(block, declaration);
    if (place) return place->memory;

    const emu_site site = emu_at(declaration->site);
    const size_t bytes =
        declaration->dynamic ? block->launch->dynamic_shared_bytes : declaration->bytes;
    if (declaration->dynamic && bytes == 0)
        emu_finding(site, "%s is dynamic shared memory, but the launch asks for 0 bytes",
                    declaration->name);
    if (!declaration->dynamic) block->shared_static_bytes += bytes, block->shared_bytes += bytes;
    if (block->shared_static_bytes > static_limit)
        emu_finding(
            site,
            "static shared memory is limited to 49152 bytes a block; with %s it is %zu: use "
            "GPU_DYNAMIC_SHARED",
            declaration->name, block->shared_static_bytes);
    if (block->shared_bytes > emu_shared_limit())
        emu_finding(
            site,
            "with %s the block has %zu bytes of shared memory; a %s allows %zu: smaller tiles, or "
            "another EMULATED_GPU",
            declaration->name, block->shared_bytes, emu_gpu_name(), emu_shared_limit());
    if (block->shared_count == EMU_MAX_SHARED_ARRAYS)
        emu_finding(site, "more than %d shared arrays", EMU_MAX_SHARED_ARRAYS);

    place = &block->shared_array[block->shared_count++];
    place->declaration = declaration, place->memory = block->shared_used, place->bytes = bytes;
    const size_t room = (bytes + EMU_RED_ZONE + 127) & ~(size_t)127;
    memset(place->memory, 0xff, room);
    block->shared_used += room;
    return place->memory;
}

void emu_shared_describe(const emu_block *block, const void *address, char *text, size_t size) {
    const char *p = address;
    const emu_shared_place *nearest = NULL;
    for (int i = 0; i < block->shared_count; i++)
        if (block->shared_array[i].memory <= p) nearest = &block->shared_array[i];
    if (!nearest)
        snprintf(text, size, "before the first shared array");
    else
        snprintf(text, size, "%s + %td of %zu bytes", nearest->declaration->name,
                 p - nearest->memory, nearest->bytes);
}

void *emu_shared_wide(const void *address, size_t bytes, int kind, const char *site) {
    emu_thread *thread = emu_current();
    emu_block *block = thread->block;
    const char *p = address, *what = kind & EMU_WRITE ? "write" : "read";
    char text[120];
    thread->site = site;
    if (p < block->shared || p >= block->shared_end)
        emu_finding(emu_at(site), "%s of %zu bytes at an address that is not shared memory (%p)",
                    what, bytes, (void *)address);
    if ((uintptr_t)p % bytes != 0) {
        emu_shared_describe(block, p, text, sizeof text);
        emu_finding(emu_at(site), "misaligned %s of %zu bytes in shared memory, %s", what, bytes,
                    text);
    }
    if (emu_check) emu_check->shared_access(thread, (void *)address, bytes, kind, emu_at(site));
    return (void *)address;
}

void emu_shared_load16(void *to, const void *shared, const char *site) {
    memcpy(to, emu_shared_wide(shared, 16, EMU_READ, site), 16);
}

void emu_shared_store16(void *shared, const void *from, const char *site) {
    memcpy(emu_shared_wide(shared, 16, EMU_WRITE, site), from, 16);
}

// The plain build sees an overrun only by its traces, when the block has ended.
void emu_shared_check_red_zones(emu_block *block) {
    for (int i = 0; i < block->shared_count; i++) {
        const emu_shared_place *place = &block->shared_array[i];
        const char *end = place->memory + place->bytes;
        for (int k = 0; k < EMU_RED_ZONE; k++)
            if (end[k] != (char)0xff)
                emu_finding(
                    emu_at(place->declaration->site),
                    "the block wrote behind shared array %s (%zu bytes), at + %zu: the check "
                    "build says where; the array is declared",
                    place->declaration->name, place->bytes, place->bytes + (size_t)k);
    }
}
