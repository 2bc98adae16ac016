// bench_gpu.c -- attention bench --device gpu: the GPU's stages, forward and backward, as CSV.
//
// The lines that begin with # say where the figures come from; a file of them can be committed. Order
// and power confound kernels that run one after the other, so all stages take turns, round by round,
// with a pause before each burst; a figure is the median over the rounds of the median of each burst.
#include "cpu/case.h"
#include "cpu/cli/bench.h"
#include "cpu/median.h"
#include "cpu/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ROUNDS = 64 };

typedef struct timing {
    attn_status status;
    double seconds[2][MAX_ROUNDS]; // by pass
} timing;

void attn_bench_pause(void) {
    const struct timespec t = {0, 50 * 1000 * 1000};
    nanosleep(&t, NULL);
}

// "580.65.06", of the NVIDIA driver; its version is not to be had from the CUDA runtime. It is the first
// number with a point in its line, where an "x86_64" may stand before it.
static void driver_version(char *text, size_t size) {
    static const char digits[] = "0123456789";
    char line[256], *at = NULL;
    snprintf(text, size, "unknown");
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    if (file && fgets(line, sizeof line, file)) at = strpbrk(line, digits);
    while (at && at[strspn(at, digits)] != '.') at = strpbrk(at + strspn(at, digits), digits);
    if (at) snprintf(text, size, "%.*s", (int)strspn(at, "0123456789."), at);
    if (file) fclose(file);
}

void attn_bench_origin(const attn_device *on, const char *what) {
    char device[160], driver[32] = "", date[32];
    const time_t now = time(NULL);
    on->describe(device, sizeof device);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&now));
    if (strcmp(on->kind, "gpu") == 0) driver_version(driver, sizeof driver);
    printf("# %s%s%s\n# %s, %s\n", device, driver[0] ? ", driver " : "", driver, date, what);
}

static void print_row(const attn_loaded_stage *row, const attn_problem *p, attn_pass pass,
                      double seconds) {
    const attn_traffic model = attn_model_bytes(row->stage, p, pass);
    const attn_tensor_bytes total = attn_traffic_total(&model);
    printf("%s,%s,%lld,%lld,%lld,%lld,%lld,%lld,%d,%.6f,%.3f,%llu,%llu\n", row->stage->name,
           pass == ATTN_FORWARD ? "forward" : "backward", (long long)p->batch, (long long)p->heads,
           (long long)p->kv_heads, (long long)p->q_len, (long long)p->kv_len,
           (long long)p->head_dim, p->causal != ATTN_CAUSAL_OFF, seconds * 1e3,
           attn_useful_flops(p, pass) / seconds / 1e12, (unsigned long long)total.read,
           (unsigned long long)total.written);
}

static attn_status bench_one(const attn_modules *modules, const attn_options *o,
                             const attn_problem *problem) {
    static timing timings[ATTN_MAX_STAGES];
    attn_case random;
    ATTN_TRY(attn_case_random(problem, o->input, o->seed, 1, &random));
    memset(timings, 0, sizeof timings);
    for (int round = -1; round < o->rounds; round++) // round -1 loads the kernels
        for (int i = 0; i < modules->stage_count; i++) {
            const attn_loaded_stage *row = &modules->stage[i];
            attn_run run;
            if (strcmp(row->module->device->kind, "gpu") != 0 || timings[i].status.code != ATTN_OK)
                continue;
            attn_inputs inputs = attn_case_inputs(&random);
            if (!row->stage->backward) inputs.d_o = NULL;
            attn_bench_pause();
            timings[i].status = attn_run_stage(row, problem, &inputs, o->repeats + 1, &run);
            if (timings[i].status.code != ATTN_OK) continue;
            for (int pass = 0; round >= 0 && pass < 2; pass++)
                timings[i].seconds[pass][round] = run.seconds[pass];
            attn_run_free(&run);
        }
    for (int i = 0; i < modules->stage_count; i++) {
        const attn_loaded_stage *row = &modules->stage[i];
        if (strcmp(row->module->device->kind, "gpu") != 0) continue;
        if (timings[i].status.code != ATTN_OK) {
            fprintf(stderr, "not timed: %s: %s\n", row->stage->name, timings[i].status.text);
            continue;
        }
        for (int pass = 0; pass < (row->stage->backward ? 2 : 1); pass++)
            print_row(row, problem, (attn_pass)pass,
                      attn_median(timings[i].seconds[pass], o->rounds));
    }
    attn_case_free(&random);
    return attn_ok();
}

attn_status attn_bench_gpu(const attn_options *o, const char *command) {
    static attn_modules modules;
    static const struct {
        int64_t batch, heads, n, d;
    } plan[] = {{8, 32, 2048, 64}, {8, 16, 2048, 128}, {1, 8, 1024, 64}, {1, 1, 1024, 64}};
    char what[200];
    ATTN_TRY(attn_load_devices("gpu", &modules));
    snprintf(what, sizeof what,
             "%s; median of %d rounds of %d runs; TFLOP/s of 4d FLOPs a visible pair forward, 10d "
             "backward",
             command, o->rounds, o->repeats + 1);
    attn_bench_origin(attn_find_yardstick(&modules, "gpu")->module->device, what);
    printf(
        "stage,pass,batch,heads,kv_heads,q_len,kv_len,head_dim,causal,ms,tflops,model_read_bytes,"
        "model_written_bytes\n");
    if (o->sizes_given) return bench_one(&modules, o, &o->problem);
    for (size_t i = 0; i < sizeof plan / sizeof plan[0]; i++) {
        attn_problem problem = attn_problem_of(plan[i].n, plan[i].n, plan[i].d);
        problem.batch = plan[i].batch;
        problem.heads = problem.kv_heads = plan[i].heads;
        ATTN_TRY(bench_one(&modules, o, &problem));
    }
    return attn_ok();
}
