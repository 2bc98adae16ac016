// program.c -- see program.h.
#include "tests/program.h"
#include "cpu/modules.h"
#include "tests/temporary_folder.h"

#include <stdarg.h>
#include <sys/wait.h>

outcome got;

void read_file(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "r");
    const size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = 0;
    if (file) fclose(file);
}

const char *program(void) {
    static char path[4200];
    const char *named = getenv("ATTENTION_PROGRAM");
    snprintf(path, sizeof path, "%s", named ? named : "");
    if (!named) {
        unsetenv("ATTENTION_MODULES"); // the program's own folder is meant
        snprintf(path, sizeof path, "%s/attention", attn_modules_folder());
    }
    return path;
}

static void run_process(const char *name, const char *first, va_list others) {
    const temporary_folder folder = make_temporary_folder();
    char out[300], err[300], *arguments[64] = {(char *)name};
    int count = 1, status = 0;
    for (const char *a = first; a && count < 63; a = va_arg(others, const char *))
        arguments[count++] = (char *)a;
    snprintf(out, sizeof out, "%s/out", folder.path);
    snprintf(err, sizeof err, "%s/err", folder.path);
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen(out, "w", stdout) || !freopen(err, "w", stderr)) _exit(126);
        execvp(arguments[0], arguments);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    got.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_file(out, got.out, sizeof got.out);
    read_file(err, got.err, sizeof got.err);
    remove_temporary_folder(&folder);
}

void run(const char *first, ...) {
    va_list others;
    va_start(others, first);
    run_process(program(), first, others);
    va_end(others);
    ck_assert_msg(got.status != 127, "%s cannot be run", program());
}

void run_command(const char *name, const char *first, ...) {
    va_list others;
    va_start(others, first);
    run_process(name, first, others);
    va_end(others);
}

int says(const char *text, const char *words) {
    char copy[512];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *rest, *word = strtok_r(copy, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
        if (!strstr(text, word)) return 0;
    return 1;
}

void expect(int status, const char *out_words, const char *err_words) {
    ck_assert_msg(
        got.status == status && says(got.out, out_words) && says(got.err, err_words),
        "expected exit status %d, output with '%s', complaint with '%s'; got %d, output\n%.1500s"
        "\ncomplaint\n%.800s",
        status, out_words, err_words, got.status, got.out, got.err);
}

void expect_refused(const char *words) {
    expect(2, "", words);
    ck_assert_msg(got.out[0] == 0, "a refusal printed: %.300s", got.out);
    ck_assert_msg(strchr(got.err, '\n') == got.err + strlen(got.err) - 1,
                  "a refusal is not one line: %s", got.err);
}

int is_built(const char *device) {
    char path[4300];
    snprintf(path, sizeof path, "%s/%s/01.so", attn_modules_folder(), device);
    return access(path, R_OK) == 0;
}

// Every row has as many fields as the first; quoted fields may hold commas.
void expect_csv(int least_rows) {
    int columns = 0, fields = 1, quoted = 0, rows = 0;
    ck_assert_msg(got.out[0] != 0, "no CSV: %s", got.err);
    for (const char *s = got.out; *s; s++) {
        if (*s == '"') quoted = !quoted;
        if (quoted || (*s != ',' && *s != '\n')) continue;
        if (*s == ',') {
            fields++;
            continue;
        }
        if (rows == 0) columns = fields;
        ck_assert_msg(fields == columns, "row %d has %d fields, the head %d:\n%s", rows, fields,
                      columns, got.out);
        rows++, fields = 1;
    }
    ck_assert_msg(!quoted && columns > 1 && rows > least_rows, "%d rows of %d:\n%s", rows, columns,
                  got.out);
}

void with_the_fake_chapters(void) {
    static char modules[4300], own[4300];
    snprintf(own, sizeof own, "%s", program());
    snprintf(modules, sizeof modules, "%s/fake", attn_modules_folder());
    setenv("ATTENTION_PROGRAM", own, 1);
    setenv("ATTENTION_MODULES", modules, 1);
}
