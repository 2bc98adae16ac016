// check_requests.c -- what the accesses of a warp cost.
//
// The 32 lanes of a warp make one request of the accesses that they make at one place in the program,
// the same time round. In device memory a request costs the 32-byte sectors it touches; in shared
// memory the passes it needs, one for each different 4-byte word that falls into the busiest of the
// 32 banks. Of 8-byte accesses half a warp goes at a time, of 16-byte ones a quarter; but half a warp of
// 16-byte reads where lanes i and i ^ 1 want the same, for all i, or lanes i and i ^ 2. Identical
// addresses are served together: they count once, in the cost and in the ideal. (NVIDIA documents no
// passes; these are the H200's, as README.md shows.)
//
// Each lane keeps a list, and the lists are matched where the lanes meet: at barriers of the block, or
// of the whole warp, and at its end. The lanes' lists are the same unless the lanes have diverged.
#include "gpu/emulator/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SITES = 1024, MOST_ACCESSES = 1 << 14, SECTOR = 32, BANKS = 32, WORD = 4 };

typedef struct access {
    emu_site site;
    uintptr_t address; // from the start of its memory; both starts are multiples of 128
    uint8_t bytes, kind, device, matched;
} access;

typedef struct list {
    access *accesses;
    int count, capacity;
} list;

typedef struct row { // of the report: one place, one kind of access
    emu_site site;
    int kind, device, bytes;
    uint64_t requests, cost, ideal;
} row;

struct emu_requests {
    list lane[EMU_MAX_THREADS];
    row rows[SITES];
};

static row all[SITES]; // of the module
static uint64_t left_out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

emu_requests *emu_requests_new(void) {
    return calloc(1, sizeof(emu_requests));
}

static int same_place(const access *a, const access *b) {
    return a->site.text == b->site.text && a->site.code == b->site.code && a->kind == b->kind &&
           a->device == b->device && a->bytes == b->bytes;
}

void emu_requests_add(emu_thread *thread, uintptr_t address, size_t bytes, int kind, int device,
                      emu_site site) {
    list *l = &emu_check_of(thread->block)->requests->lane[thread->index];
    if (l->count == MOST_ACCESSES) { // bounds the memory of kernels without barriers
        __atomic_fetch_add(&left_out, 1, __ATOMIC_RELAXED);
        return;
    }
    if (l->count == l->capacity) {
        const int capacity = l->capacity ? 2 * l->capacity : 256;
        access *bigger = realloc(l->accesses, (size_t)capacity * sizeof *bigger);
        if (!bigger) return; // statistics alone suffer
        l->accesses = bigger, l->capacity = capacity;
    }
    const access a = {
        site, address, (uint8_t)bytes, kind & (EMU_READ | EMU_WRITE | EMU_COPY), (uint8_t)device,
        0};
    l->accesses[l->count++] = a;
}

static row *row_of(row *rows, emu_site site, int kind, int device, int bytes) {
    const uintptr_t key =
        (uintptr_t)site.text ^ (uintptr_t)site.code ^ (uintptr_t)(kind + 4 * device);
    const unsigned start = (unsigned)(key * 2654435761u >> 7) % SITES;
    for (unsigned k = 0; k < SITES; k++) {
        row *r = &rows[(start + k) % SITES];
        if (r->kind == 0) r->site = site, r->kind = kind, r->device = device, r->bytes = bytes;
        if (r->site.text == site.text && r->site.code == site.code && r->kind == kind &&
            r->device == device && r->bytes == bytes)
            return r;
    }
    return NULL; // more places than rows: left out
}

// Appends `value` to set[0 .. count) unless it is there; returns the new count.
static int insert(uintptr_t *set, int count, uintptr_t value) {
    for (int i = count - 1; i >= 0; i--)
        if (set[i] == value) return count;
    set[count] = value;
    return count + 1;
}

static void cost_device(row *r, access *const *lanes) {
    uintptr_t sectors[2 * EMU_WARP], addresses[EMU_WARP];
    int sector_count = 0, address_count = 0;
    for (int i = 0; i < EMU_WARP; i++) {
        if (!lanes[i]) continue;
        address_count = insert(addresses, address_count, lanes[i]->address);
        // Aligned accesses of up to 16 bytes lie in one sector.
        sector_count = insert(sectors, sector_count, lanes[i]->address / SECTOR);
    }
    r->cost += (uint64_t)sector_count;
    r->ideal += ((uint64_t)address_count * (uint64_t)r->bytes + SECTOR - 1) / SECTOR;
}

// Do lanes i and i ^ distance want the same, for all i?
static int are_pairs(access *const *lanes, int distance) {
    for (int i = 0; i < EMU_WARP; i++) {
        const access *a = lanes[i], *b = lanes[i ^ distance];
        if (a && b && a->address != b->address) return 0;
    }
    return 1;
}

static void cost_shared(row *r, access *const *lanes) {
    int together = r->bytes <= WORD ? EMU_WARP : EMU_WARP * WORD / r->bytes;
    if (r->bytes == 16 && r->kind == EMU_READ && (are_pairs(lanes, 1) || are_pairs(lanes, 2)))
        together *= 2;
    for (int first = 0; first < EMU_WARP; first += together) {
        uintptr_t words[2 * EMU_WARP];
        int count = 0, load[BANKS] = {0}, passes = 0;
        for (int i = first; i < first + together; i++) {
            if (!lanes[i]) continue;
            const uintptr_t from = lanes[i]->address / WORD;
            const uintptr_t to = (lanes[i]->address + (unsigned)r->bytes - 1) / WORD;
            for (uintptr_t word = from; word <= to; word++) {
                const int before = count;
                count = insert(words, count, word);
                if (count > before && ++load[word % BANKS] > passes) passes = load[word % BANKS];
            }
        }
        r->cost += (uint64_t)passes;
        r->ideal += passes > 0;
    }
}

static void request(emu_requests *requests, access *const *lanes) {
    const access *any = NULL;
    for (int i = 0; i < EMU_WARP && !any; i++) any = lanes[i];
    row *r = row_of(requests->rows, any->site, any->kind, any->device, any->bytes);
    if (!r) return;
    r->requests++;
    if (any->device)
        cost_device(r, lanes);
    else
        cost_shared(r, lanes);
}

void emu_requests_flush(emu_block *block, int warp) {
    emu_requests *requests = emu_check_of(block)->requests;
    list *lists = &requests->lane[warp * EMU_WARP];
    const int left = block->threads - warp * EMU_WARP, lanes = left < EMU_WARP ? left : EMU_WARP;
    access *group[EMU_WARP] = {NULL};

    int common = 0; // as long as all lanes did the same, line up by position
    for (;; common++) {
        for (int i = 0; i < lanes; i++) group[i] = NULL;
        int same = 1;
        for (int i = 0; i < lanes && same; i++) {
            same = common < lists[i].count &&
                   same_place(&lists[i].accesses[common], &lists[0].accesses[common]);
            if (same) group[i] = &lists[i].accesses[common];
        }
        if (!same) break;
        request(requests, group);
    }
    // From there on: each lane's first unmatched access at the same place. The lists are short, since
    // lanes rejoin at the next barrier.
    int start[EMU_WARP]; // all before it are matched
    for (int i = 0; i < lanes; i++) start[i] = common;
    for (int i = 0; i < lanes; i++)
        for (int k = common; k < lists[i].count; k++) {
            access *a = &lists[i].accesses[k];
            if (a->matched) continue;
            memset(group, 0, sizeof group);
            group[i] = a;
            a->matched = 1;
            for (int j = i + 1; j < lanes; j++) {
                const list *other = &lists[j];
                while (start[j] < other->count && other->accesses[start[j]].matched) start[j]++;
                for (int m = start[j]; m < other->count; m++) {
                    access *b = &other->accesses[m];
                    if (b->matched || !same_place(a, b)) continue;
                    group[j] = b;
                    b->matched = 1;
                    break;
                }
            }
            request(requests, group);
        }
    for (int i = 0; i < lanes; i++) lists[i].count = 0;
}

void emu_requests_gather(emu_block *block) {
    row *rows = emu_check_of(block)->requests->rows;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SITES; i++) {
        row *r = &rows[i];
        if (r->kind == 0) continue;
        row *sum = row_of(all, r->site, r->kind, r->device, r->bytes);
        if (!sum) continue;
        sum->requests += r->requests, sum->cost += r->cost, sum->ideal += r->ideal;
        emu_launches_add(block->launch->kernel, r->device, r->kind, r->cost, r->ideal);
    }
    pthread_mutex_unlock(&lock);
    memset(rows, 0, SITES * sizeof *rows);
}

void emu_requests_print(FILE *file) {
    uint64_t cost[2] = {0, 0}, ideal[2] = {0, 0};
    for (int i = 0; i < SITES; i++)
        cost[all[i].device] += all[i].cost, ideal[all[i].device] += all[i].ideal;
    fprintf(file,
            "device memory: %llu sectors of 32 bytes, %llu if every request were coalesced\n"
            "shared memory: %llu passes, %llu without bank conflicts\n",
            (unsigned long long)cost[1], (unsigned long long)ideal[1], (unsigned long long)cost[0],
            (unsigned long long)ideal[0]);
    emu_launches_print(file);
    if (left_out)
        fprintf(file, "(of threads that go on without barriers, %llu accesses are not in here)\n",
                (unsigned long long)left_out);
    static const char *const what[] = {[0] = "read", [EMU_WRITE] = "write", [EMU_COPY] = "copy"};
    for (int i = 0; i < SITES; i++) {
        const row *r = &all[i];
        if (r->kind == 0 || r->cost * 4 <= r->ideal * 5) continue; // within a quarter of the ideal
        char where[200];
        emu_site_describe(r->site, NULL, where, sizeof where);
        fprintf(file, "  %s: %s %s of %d bytes, %llu requests: %.2f %s each, ideal %.2f\n", where,
                r->device ? "device" : "shared", what[r->kind & (EMU_WRITE | EMU_COPY)], r->bytes,
                (unsigned long long)r->requests, (double)r->cost / (double)r->requests,
                r->device ? "sectors" : "passes", (double)r->ideal / (double)r->requests);
    }
}
