// bench.c -- attention bench: the host's stages as fractions of what this machine's FMA units do.
//
// Absolute times say little on a machine whose clock and neighbours change from minute to minute. So
// each round times the FMA probe and every stage in turn, each rate is divided by that of the probe
// next to it, before a forward and after a backward pass, and the medians over the rounds are shown.
#include "cpu/case.h"
#include "cpu/cli/bench.h"
#include "cpu/cli/generated.h"
#include "cpu/fma_probe.h"
#include "cpu/mask.h"
#include "cpu/median.h"
#include "cpu/runner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#ifdef __clang__
#define COMPILER __VERSION__ // begins with the name
#else
#define COMPILER "gcc " __VERSION__
#endif

enum { MAX_ROUNDS = 64, MAX_STAGES = 32, TEXT = 32 * 1024 };

static int most_threads(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static void use_threads(int threads) {
#ifdef _OPENMP
    omp_set_num_threads(threads);
#else
    (void)threads;
#endif
}

// Products that a pass is counted for, whatever a stage executes.
static const double products[2] = {[ATTN_FORWARD] = 2, [ATTN_BACKWARD] = 5};

// One pass of one stage on one problem: medians over the rounds.
typedef struct figures {
    double rate[2], fraction[2]; // GFLOP/s, and over the probe; on one thread, on all
    double speedup;              // all threads over one, of the same rounds
} figures;

typedef struct timed_stage {
    const attn_loaded_stage *row;
    attn_status status;
    figures pass[2]; // the second where the stage has a backward pass
} timed_stage;

static int passes(const timed_stage *stage) {
    return stage->row->stage->backward ? 2 : 1;
}

static attn_status time_round(const timed_stage *stage, const attn_problem *problem,
                              attn_inputs inputs, double seconds[2]) {
    attn_run run;
    if (passes(stage) < 2) inputs.d_o = NULL;
    ATTN_TRY(attn_run_stage(stage->row, problem, &inputs, 1, &run));
    for (int pass = 0; pass < passes(stage); pass++) seconds[pass] = run.seconds[pass];
    attn_run_free(&run);
    return attn_ok();
}

static void bench_problem(const attn_problem *problem, const attn_inputs *inputs, int rounds,
                          int threads, timed_stage *stage, int count) {
    static double rate[MAX_STAGES][2][2][MAX_ROUNDS], fraction[MAX_STAGES][2][2][MAX_ROUNDS];
    static double speedup[MAX_ROUNDS];
    const double flops_of_product = 2.0 * (double)problem->head_dim *
                                    (double)(problem->batch * problem->heads) *
                                    (double)attn_visible_pairs(problem);
    // Round -1 warms up: pages, clocks, and OpenMP's threads.
    for (int round = -1; round < rounds; round++)
        for (int all = 0; all < 2; all++) {
            use_threads(all ? threads : 1);
            for (int i = 0; i < count; i++) {
                double seconds[2] = {1, 1}, peak[2];
                if (stage[i].status.code != ATTN_OK) continue;
                peak[ATTN_FORWARD] = attn_fma_probe(all ? threads : 1);
                stage[i].status = time_round(&stage[i], problem, *inputs, seconds);
                peak[ATTN_BACKWARD] = attn_fma_probe(all ? threads : 1);
                for (int pass = 0; pass < 2 && round >= 0; pass++) {
                    const double flops = products[pass] * flops_of_product;
                    rate[i][pass][all][round] = flops / seconds[pass] / 1e9;
                    fraction[i][pass][all][round] = rate[i][pass][all][round] / peak[pass];
                }
            }
        }
    use_threads(threads);
    for (int i = 0; i < count; i++)
        for (int pass = 0; pass < 2; pass++) {
            figures *f = &stage[i].pass[pass];
            for (int round = 0; round < rounds; round++)
                speedup[round] = rate[i][pass][1][round] / rate[i][pass][0][round];
            for (int all = 0; all < 2; all++) {
                f->rate[all] = attn_median(rate[i][pass][all], rounds);
                f->fraction[all] = attn_median(fraction[i][pass][all], rounds);
            }
            f->speedup = attn_median(speedup, rounds);
        }
}

// ---- output: Markdown for people and README, or CSV ----
typedef struct text {
    char all[TEXT];
    size_t used;
} text;

__attribute__((format(printf, 2, 3))) static void append(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (t->used < TEXT)
        t->used += (size_t)vsnprintf(t->all + t->used, TEXT - t->used, format, arguments);
    va_end(arguments);
}

static void processor_name(char *name, size_t size) {
    char line[256];
    snprintf(name, size, "unknown processor");
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info && fgets(line, sizeof line, info))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            snprintf(name, size, "%s", strchr(line, ':') + 2);
            name[strcspn(name, "\n")] = 0;
            break;
        }
    if (info) fclose(info);
}

static void begin_output(text *t, const attn_options *o, int threads) {
    char processor[128], date[32];
    const time_t now = time(NULL);
    if (o->csv) {
        append(t, "stage,pass,batch,heads,q_len,kv_len,head_dim,causal,threads,gflops,of_fma_1,"
                  "of_fma_all,speedup\n");
        return;
    }
    processor_name(processor, sizeof processor);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&now));
    append(
        t,
        "Measured by `make bench` on %s: %s, %d thread%s, compiler %s, medians of %d interleaved "
        "rounds; GFLOP/s are useful ones: for each pair of query and key that see each other 4d "
        "forward, and 10d backward, whether P is kept or computed again.\n\n",
        date, processor, threads, threads == 1 ? "" : "s", COMPILER, o->rounds);
    append(t,
           "| problem | stage | pass | GFLOP/s | of FMA peak, 1 thread | of FMA peak, %d threads | "
           "%d threads over 1 |\n|---|---|---|---:|---:|---:|---:|\n",
           threads, threads);
}

static void add_figures(text *t, const attn_options *o, const attn_problem *p, int threads,
                        const timed_stage *stage) {
    static const char *const names[2] = {[ATTN_FORWARD] = "forward", [ATTN_BACKWARD] = "backward"};
    const char *name = stage->row->stage->name;
    char problem[160];
    attn_problem_describe(p, problem, sizeof problem);
    if (stage->status.code != ATTN_OK) {
        fprintf(stderr, "not timed: %s, %s: %s\n", name, problem, stage->status.text);
        return;
    }
    for (int pass = 0; pass < passes(stage); pass++) {
        const figures *f = &stage->pass[pass];
        if (o->csv)
            append(t, "%s,%s,%lld,%lld,%lld,%lld,%lld,%d,%d,%.2f,%.4f,%.4f,%.3f\n", name,
                   names[pass], (long long)p->batch, (long long)p->heads, (long long)p->q_len,
                   (long long)p->kv_len, (long long)p->head_dim, (int)p->causal, threads,
                   f->rate[1], f->fraction[0], f->fraction[1], f->speedup);
        else
            append(t, "| %s | %s | %s | %.1f | %.3f | %.3f | %.2f |\n", problem, name, names[pass],
                   f->rate[1], f->fraction[0], f->fraction[1], f->speedup);
    }
}

// A fraction above 1, or two threads that are slower than one: something else had the processor.
static int is_disturbed(const timed_stage *stage, int threads) {
    int disturbed = 0;
    for (int pass = 0; pass < passes(stage); pass++) {
        const figures *f = &stage->pass[pass];
        disturbed |= f->fraction[0] > 1 || f->fraction[1] > 1 || (threads > 1 && f->speedup < 0.9);
    }
    return stage->status.code == ATTN_OK && disturbed;
}

static attn_status bench_one(const attn_modules *modules, const attn_options *o,
                             const attn_problem *problem, int threads, text *t, int *disturbed) {
    timed_stage stage[MAX_STAGES];
    int count = 0;
    attn_case random;
    ATTN_TRY(attn_case_random(problem, o->input, o->seed, 1, &random));
    const attn_inputs inputs = attn_case_inputs(&random);
    for (int i = 0; i < modules->stage_count && count < MAX_STAGES; i++)
        if (strcmp(modules->stage[i].module->device->kind, "host") == 0) {
            stage[count].row = &modules->stage[i];
            stage[count++].status = attn_ok();
        }
    bench_problem(problem, &inputs, o->rounds, threads, stage, count);
    for (int i = 0; i < count; i++) {
        add_figures(t, o, problem, threads, &stage[i]);
        *disturbed |= is_disturbed(&stage[i], threads);
    }
    attn_case_free(&random);
    return attn_ok();
}

static int is_own_problem(const attn_options *o) {
    return o->sizes_given || attn_problem_features(&o->problem) != 0;
}

static attn_status bench(const attn_options *o) {
    static attn_modules modules;
    static text t;
    static const struct {
        int64_t n, d;
        attn_causal causal;
    } plan[] = {{1024, 64, ATTN_CAUSAL_OFF},
                {1024, 128, ATTN_CAUSAL_OFF},
                {2048, 64, ATTN_CAUSAL_BOTTOM_RIGHT},
                {2048, 128, ATTN_CAUSAL_BOTTOM_RIGHT}};
    const int threads = most_threads();
    int disturbed = 0;
    if (o->device && strcmp(o->device, "gpu") == 0)
        return attn_bench_gpu(o, "make bench DEVICE=gpu");
    if (o->device && strcmp(o->device, "host") != 0)
        return attn_error(
            ATTN_BAD_INPUT,
            "--device is '%s'; bench times host or gpu: the emulator's time means nothing",
            o->device);
    if (is_own_problem(o) && (attn_visible_pairs(&o->problem) == 0 || o->problem.batch == 0))
        return attn_error(ATTN_BAD_INPUT, "there is nothing to time: no query sees a key");
    ATTN_TRY(attn_load_devices("host", &modules));
    begin_output(&t, o, threads);
    if (is_own_problem(o)) {
        ATTN_TRY(bench_one(&modules, o, &o->problem, threads, &t, &disturbed));
    } else {
        for (size_t i = 0; i < sizeof plan / sizeof plan[0]; i++) {
            attn_problem problem = attn_problem_of(plan[i].n, plan[i].n, plan[i].d);
            problem.heads = problem.kv_heads = o->problem.heads;
            problem.causal = plan[i].causal;
            ATTN_TRY(bench_one(&modules, o, &problem, threads, &t, &disturbed));
        }
    }
    printf("%s", t.all);
    if (disturbed)
        return attn_error(ATTN_DEVICE,
                          "another program had the processor: a fraction is above 1, or more "
                          "threads were slower than one; no table is written, run it again");
    // A reader's own sizes are shown, but the published table is of the plan.
    for (int i = 0; i < o->write_tables && !is_own_problem(o); i++)
        ATTN_TRY(attn_generated_replace(o->write_table[i], "bench", t.all));
    return attn_ok();
}

int attn_command_bench(const attn_options *options) {
    return attn_complain(bench(options));
}
