// async.c -- cp.async: copies from device to shared memory that arrive later.
//
// A copy is made when it is waited for, no sooner: a kernel that forgets the wait reads NaN (or the
// tile before), as it may on a GPU. Its bytes count when it is issued.
#include "gpu/emulator/runtime.h"

#include <stdlib.h>
#include <string.h>

void emu_async_copy(void *shared, const void *device, size_t bytes, const char *site) {
    emu_thread *thread = emu_current();
    emu_block *block = thread->block;
    thread->site = site;
    char text[120];
    if ((char *)shared < block->shared || (char *)shared >= block->shared_end)
        emu_finding(emu_at(site), "cp.async to an address that is not shared memory (%p)", shared);
    emu_shared_describe(block, shared, text, sizeof text);
    if ((uintptr_t)shared % bytes != 0)
        emu_finding(emu_at(site), "misaligned cp.async of %zu bytes to shared memory, %s", bytes,
                    text);
    if ((char *)shared + bytes > block->shared_used)
        emu_finding(emu_at(site), "out-of-bounds cp.async of %zu bytes to shared memory, %s", bytes,
                    text);
    const void *from = emu_hbm(device, bytes, EMU_READ | EMU_COPY, site);
    if (emu_check) emu_check->copy_issued(thread, shared, bytes, emu_at(site));
    if (thread->copy_count == thread->copy_capacity) {
        const int capacity = thread->copy_capacity ? 2 * thread->copy_capacity : 32;
        emu_copy *copies = realloc(thread->copies, (size_t)capacity * sizeof *copies);
        if (!copies) emu_finding(emu_at(site), "no memory for %d copies in flight", capacity);
        thread->copies = copies, thread->copy_capacity = capacity;
    }
    const emu_copy copy = {shared, from, bytes, thread->groups_committed, site};
    thread->copies[thread->copy_count++] = copy;
}

void emu_async_commit(void) {
    emu_current()->groups_committed++;
}

void emu_async_wait(int groups_left) {
    emu_thread *thread = emu_current();
    int left = 0;
    for (int i = 0; i < thread->copy_count; i++) {
        const emu_copy copy = thread->copies[i];
        if (copy.group < thread->groups_committed - groups_left) {
            memcpy(copy.to, copy.from, copy.bytes);
            if (emu_check) emu_check->copy_landed(thread, copy.to, copy.bytes);
        } else {
            thread->copies[left++] = copy;
        }
    }
    thread->copy_count = left;
}

void emu_async_check_done(emu_thread *thread) {
    if (thread->copy_count == 0) return;
    emu_finding(emu_at(thread->copies[0].site),
                "the thread returned with %d cp.async copies still in flight, the first issued",
                thread->copy_count);
}
