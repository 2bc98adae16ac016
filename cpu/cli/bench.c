// bench.c -- attention bench: the host's stages as fractions of what this machine's FMA units do.
//
// Absolute times say little on a machine whose clock and neighbours change from minute to minute. So
// each round times the FMA probe and every stage in turn, each stage's rate is divided by the probe's of
// the same round, and the medians over the rounds are shown.
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

// One stage on one problem: medians over the rounds.
typedef struct figures {
    const attn_loaded_stage *row;
    attn_status status;
    double rate[2], fraction[2]; // GFLOP/s, and over the probe; on one thread, on all
    double speedup;              // all threads over one, of the fractions' own rounds
} figures;

static attn_status time_round(const attn_loaded_stage *row, const attn_problem *problem,
                              const attn_inputs *inputs, double *seconds) {
    attn_run run;
    ATTN_TRY(attn_run_stage(row, problem, inputs, 1, &run));
    *seconds = run.seconds[ATTN_FORWARD];
    attn_run_free(&run);
    return attn_ok();
}

static void bench_problem(const attn_problem *problem, const attn_inputs *inputs, int rounds,
                          int threads, figures *stage, int count) {
    static double rate[MAX_STAGES][2][MAX_ROUNDS], fraction[MAX_STAGES][2][MAX_ROUNDS];
    static double speedup[MAX_STAGES][MAX_ROUNDS];
    const double flops = 4.0 * (double)problem->head_dim *
                         (double)(problem->batch * problem->heads) *
                         (double)attn_visible_pairs(problem);
    // Round -1 warms up: pages, clocks, and OpenMP's threads.
    for (int round = -1; round < rounds; round++)
        for (int all = 0; all < 2; all++) {
            use_threads(all ? threads : 1);
            for (int i = 0; i < count; i++) {
                double seconds = 1;
                const double peak = attn_fma_probe(all ? threads : 1);
                if (stage[i].status.code != ATTN_OK) continue;
                stage[i].status = time_round(stage[i].row, problem, inputs, &seconds);
                if (round < 0) continue;
                rate[i][all][round] = flops / seconds / 1e9;
                fraction[i][all][round] = rate[i][all][round] / peak;
            }
        }
    use_threads(threads);
    for (int i = 0; i < count; i++) {
        for (int round = 0; round < rounds; round++)
            speedup[i][round] = rate[i][1][round] / rate[i][0][round];
        for (int all = 0; all < 2; all++) {
            stage[i].rate[all] = attn_median(rate[i][all], rounds);
            stage[i].fraction[all] = attn_median(fraction[i][all], rounds);
        }
        stage[i].speedup = attn_median(speedup[i], rounds);
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
        append(t,
               "stage,batch,heads,q_len,kv_len,head_dim,causal,threads,gflops,of_fma_1,of_fma_all,"
               "speedup\n");
        return;
    }
    processor_name(processor, sizeof processor);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&now));
    append(
        t,
        "Measured by `make bench` on %s: %s, %d thread%s, compiler %s, medians of %d interleaved "
        "rounds; GFLOP/s are useful ones, 4d for each pair of query and key that see each "
        "other.\n\n",
        date, processor, threads, threads == 1 ? "" : "s", COMPILER, o->rounds);
    append(t,
           "| problem | stage | GFLOP/s | of FMA peak, 1 thread | of FMA peak, %d threads | "
           "%d threads over 1 |\n|---|---|---:|---:|---:|---:|\n",
           threads, threads);
}

static void add_figures(text *t, const attn_options *o, const attn_problem *p, int threads,
                        const figures *f) {
    char problem[160];
    attn_problem_describe(p, problem, sizeof problem);
    if (f->status.code != ATTN_OK) {
        fprintf(stderr, "not timed: %s, %s: %s\n", f->row->stage->name, problem, f->status.text);
        return;
    }
    if (o->csv)
        append(t, "%s,%lld,%lld,%lld,%lld,%lld,%d,%d,%.2f,%.4f,%.4f,%.3f\n", f->row->stage->name,
               (long long)p->batch, (long long)p->heads, (long long)p->q_len, (long long)p->kv_len,
               (long long)p->head_dim, (int)p->causal, threads, f->rate[1], f->fraction[0],
               f->fraction[1], f->speedup);
    else
        append(t, "| %s | %s | %.1f | %.3f | %.3f | %.2f |\n", problem, f->row->stage->name,
               f->rate[1], f->fraction[0], f->fraction[1], f->speedup);
}

// A fraction above 1, or two threads that are slower than one: something else had the processor.
static int is_disturbed(const figures *f, int threads) {
    return f->status.code == ATTN_OK &&
           (f->fraction[0] > 1 || f->fraction[1] > 1 || (threads > 1 && f->speedup < 0.9));
}

static attn_status bench_one(const attn_modules *modules, const attn_options *o,
                             const attn_problem *problem, int threads, text *t, int *disturbed) {
    figures stage[MAX_STAGES];
    int count = 0;
    attn_case random;
    ATTN_TRY(attn_case_random(problem, o->input, o->seed, 0, &random));
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
