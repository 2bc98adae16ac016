// warp.c -- where the lanes of a warp meet: __syncwarp, shuffles, ballots.
//
// Each lane leaves its argument and waits; the last one to come does the work for all. Further
// collectives (matrix products, ldmatrix) need one function of type emu_collective each.
#include "gpu/emulator/runtime.h"

static int disagree(const emu_thread *a, const emu_thread *b) {
    return a->mask != b->mask || a->collective != b->collective;
}

void emu_warp_meet(unsigned mask, emu_collective *collective, void *argument, const char *site) {
    emu_thread *thread = emu_current();
    emu_warp *warp = thread->warp;
    const int lane = thread->place.lane;
    thread->site = site;
    if (warp->lanes < EMU_WARP) mask &= (1u << warp->lanes) - 1;
    if (!(mask >> lane & 1))
        emu_finding(emu_at(site), "lane %d calls a warp operation whose mask %08x leaves it out",
                    lane, mask);
    thread->mask = mask, thread->collective = collective, thread->argument = argument;
    thread->state = EMU_IN_WARP;
    warp->waiting |= 1u << lane;
    if ((warp->waiting & mask) != mask) {
        emu_yield();
        return;
    }
    for (int i = 0; i < warp->lanes; i++)
        if (mask >> i & 1 && disagree(thread, &warp->thread[i])) {
            const emu_thread *other = &warp->thread[i];
            if (!(other->mask >> lane & 1)) { // it waits for others first
                emu_yield();
                return;
            }
            emu_finding(
                emu_at(site),
                "lanes of a warp meet in different operations: lane %d with mask %08x here, "
                "lane %d with mask %08x at %s",
                lane, mask, i, other->mask, other->site);
        }
    if (collective) collective(warp, mask);
    for (int i = 0; i < warp->lanes; i++)
        if (mask >> i & 1) warp->thread[i].state = EMU_READY;
    warp->waiting &= ~mask;
}

static void barrier(emu_warp *warp, unsigned mask) {
    if (emu_check) emu_check->warp_barrier(warp, mask);
}

void emu_warp_barrier(unsigned mask, const char *site) {
    emu_warp_meet(mask, barrier, NULL, site);
}

typedef struct shuffle_argument {
    uint64_t bits, result;
    int from; // the lane whose bits are wanted
} shuffle_argument;

static void shuffle(emu_warp *warp, unsigned mask) {
    for (int i = 0; i < warp->lanes; i++) {
        if (!(mask >> i & 1)) continue;
        shuffle_argument *a = warp->thread[i].argument;
        if (mask >> a->from & 1) {
            a->result = ((shuffle_argument *)warp->thread[a->from].argument)->bits;
        } else {
            emu_here = &warp->thread[i].place;
            emu_finding(emu_at(warp->thread[i].site),
                        "shuffle: lane %d asks for lane %d, which is not in the mask %08x", i,
                        a->from, mask);
        }
    }
}

// CUDA C++ Programming Guide, "Warp Shuffle Functions": lanes are grouped by `width`; a lane whose
// source would lie outside its group keeps its own value. For xor, a lower group may be read.
static int source_lane(emu_shuffle_kind kind, int lane, int argument, int width) {
    const int first = lane & ~(width - 1);
    int from = lane;
    switch (kind) {
    case EMU_INDEXED:
        return first + (argument & (width - 1));
    case EMU_UP:
        from = lane - argument;
        return from < first ? lane : from;
    case EMU_DOWN:
        from = lane + argument;
        return from >= first + width ? lane : from;
    case EMU_XOR:
        from = lane ^ argument;
        return from >= first + width ? lane : from;
    }
    return lane;
}

uint64_t emu_shuffle(emu_shuffle_kind kind, unsigned mask, uint64_t bits, int argument, int width,
                     const char *site) {
    const int lane = emu_here->lane;
    if (width < 1 || width > EMU_WARP || (width & (width - 1)) != 0)
        emu_finding(emu_at(site), "shuffle: width %d is not 1, 2, 4, 8, 16 or 32", width);
    if (kind != EMU_INDEXED && (argument < 0 || argument >= EMU_WARP))
        emu_finding(emu_at(site), "shuffle: a lane distance of %d is not in 0 to 31", argument);
    shuffle_argument a = {bits, 0, source_lane(kind, lane, argument, width)};
    emu_warp_meet(mask, shuffle, &a, site);
    return a.result;
}

typedef struct ballot_argument {
    int predicate;
    unsigned result;
} ballot_argument;

static void ballot(emu_warp *warp, unsigned mask) {
    unsigned votes = 0;
    for (int i = 0; i < warp->lanes; i++)
        if (mask >> i & 1 && ((ballot_argument *)warp->thread[i].argument)->predicate)
            votes |= 1u << i;
    for (int i = 0; i < warp->lanes; i++)
        if (mask >> i & 1) ((ballot_argument *)warp->thread[i].argument)->result = votes;
}

unsigned emu_ballot(unsigned mask, int predicate, const char *site) {
    ballot_argument a = {predicate, 0};
    emu_warp_meet(mask, ballot, &a, site);
    return a.result;
}
