// test_texts.c -- the Markdown files: their links lead somewhere, and what tests/texts finds wrong is found.
// (That the commands in them run is `make test-commands`, which takes minutes.)
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/temporary_folder.h"

Suite *texts_suite(void);

static void write_in(const temporary_folder *folder, const char *name, const char *text) {
    write_text(in_folder(folder, name), text);
}

START_TEST(every_link_leads_somewhere) {
    run_command("sh", "tests/texts/links.sh", NULL);
    ck_assert_msg(got.status == 0 && says(got.out, " links checked, 0 broken"), "%s%s", got.out,
                  got.err);
}
END_TEST

START_TEST(links_that_are_right_pass) {
    const temporary_folder folder = make_temporary_folder();
    mkdir(in_folder(&folder, "notes"), 0700);
    write_in(&folder, "README.md",
             "# The `chapters`, v1 · v2\n\n## Why 1.5?\n\n## Why 1.5?\n\n"
             "[a](#the-chapters-v1--v2) [b](#why-15-1) [c](notes/a.md#over-there) [d](notes)\n"
             "[over two\nlines](notes/a.md) and notes/a.md, `notes/a.md`, [e](https://x.org/#y)\n\n"
             "    [in a block](nowhere.md)\n\n```\n[f](nowhere.md)\n```\n\n"
             "`[in code](nowhere.md)`, `a `[g](notes/a.md)` b`, chapters/NN/README.md\n");
    write_in(&folder, "notes/a.md", "## [Over](../README.md) there\n\n[up](../README.md)\n");
    run_command("sh", "tests/texts/links.sh", folder.path, NULL);
    remove_temporary_folder(&folder);
    expect(0, "10 links checked, 0 broken", "");
}
END_TEST

// Each broken in its own way, alone in a project.
START_TEST(broken_links_are_told) {
    static const char *const broken[][2] = {
        {"[a](b.md)\n", "README.md:1: b.md: there is no b.md"},
        {"text\n\n![a](plots/b.svg)\n", "README.md:3: plots/b.svg: there is no"},
        {"# Head\n\n[a](#heads)\n", "no heading in README.md gives #heads"},
        {"# Head\n\n[a](#head-1)\n", "gives #head-1"},
        {"# Head\n\n[a](README.md#Head)\n", "gives #Head"},
        {"[a](../b.md)\n", "leaves the project"},
        {"[a](/README.md)\n", "an absolute path"},
        {"[a]\n\n[a]: c.md\n", "there is no c.md"},
        {"see notes/c.md.\n", "there is no notes/c.md"},
        {"`build/attention tests/c.txt`\n", "there is no tests/c.txt"},
        {"a `code\nover` two lines [a](d.md)\n", "README.md:2: d.md"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        const temporary_folder folder = make_temporary_folder();
        write_in(&folder, "README.md", broken[i][0]);
        run_command("sh", "tests/texts/links.sh", folder.path, NULL);
        remove_temporary_folder(&folder);
        ck_assert_msg(got.status != 0 && says(got.out, broken[i][1]) && says(got.out, " 1 broken"),
                      "of\n%s\nit says\n%s%s", broken[i][0], got.out, got.err);
    }
}
END_TEST

// A project of two texts and a Makefile that knows `good`, `bad`, `chapter3` and the knob N.
static temporary_folder small_project(const char *readme) {
    const temporary_folder folder = make_temporary_folder();
    write_in(&folder, "README.md", readme);
    write_in(&folder, "Makefile",
             "good:\n\t@echo good > written\nbad:\n\t@echo dreadful; exit 3\n"
             "chapter3:\n\t@echo N is $(N)\nncu record:\n\t@exit 1\n"
             "ifdef HEADZ\n$(error no knob HEADZ)\nendif\n");
    mkdir(in_folder(&folder, "chapters"), 0700);
    write_in(&folder, "chapters/title.h",
             "// `make bad` is not said\n#define P \"make chapter3 N=9    (why?)\"\n");
    return folder;
}

START_TEST(commands_run_in_a_copy) {
    const temporary_folder folder = small_project(
        "Type `make good`, or `X=1 make\ngood`, not make bad; `make ncu`, `make chapterN`.\n\n"
        "    make good          # as above\n    make bad          # refuses, status 2\n    "
        "EMULATED_GPU=A100 make chapter3 N=2048\n    EMULATED_GPU=A100 make chapter3 N=4096\n\n"
        "```\n$ make good && echo done\n```\n");
    run_command("sh", "tests/texts/commands.sh", folder.path, NULL);
    const int written = access(in_folder(&folder, "written"), F_OK) == 0;
    remove_temporary_folder(&folder);
    expect(0,
           " s  make good\n|X=1 make good\n|make good && echo done\n|as  EMULATED_GPU=A100 make "
           "chapter3 "
           "N=256|"
           "make chapter3 N=9\n|not run: make ncu|it needs a GPU|not run: make chapterN|"
           "7 commands ran, 2 were only looked at",
           "");
    ck_assert_msg(!written, "what a command wrote is in the folder itself");
}
END_TEST

START_TEST(commands_that_fail_are_told) {
    static const char *const broken[][2] = {
        {"text\n\n    make good\n    make bad\n",
         "FAIL  make bad, in README.md:4: exit status 2|dreadful"},
        {"`make goood`\n", "FAIL  make goood, in README.md:1"},
        {"`make record HEADZ=1`\n", "FAIL  make record HEADZ=1|no knob HEADZ"},
        {"`make peers`\n", "FAIL  make peers, in README.md:1"},
        {"`make nothingN`\n", "FAIL  make nothingN"},
        {"`build/tests --suite npi`\n", "FAIL  build/tests --suite npi"},
        {"`build/attention run`\n", "FAIL  build/attention run"},
        {"```sh\nmake chapter3 && false\n```\n", "FAIL  make chapter3 && false|N is 256"},
        {"`make check`\n", "FAIL  make check|and it is none"},
        {"`EMULATED_GPU=T4 make chapter4 || exit 2`\n\n    EMULATED_GPU=T4 make chapter3 && exit "
         "7\n",
         "exit status 7 and not 2"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        const temporary_folder folder = small_project(broken[i][0]);
        run_command("sh", "tests/texts/commands.sh", folder.path, NULL);
        remove_temporary_folder(&folder);
        ck_assert_msg(got.status == 1 && says(got.out, broken[i][1]), "of\n%s\nit says (%d)\n%s%s",
                      broken[i][0], got.status, got.out, got.err);
    }
}
END_TEST

Suite *texts_suite(void) {
    Suite *suite = suite_create("texts");
    TCase *tests = tcase_create("texts");
    tcase_add_test(tests, every_link_leads_somewhere);
    tcase_add_test(tests, links_that_are_right_pass);
    tcase_add_test(tests, broken_links_are_told);
    tcase_add_test(tests, commands_run_in_a_copy);
    tcase_add_test(tests, commands_that_fail_are_told);
    suite_add_tcase(suite, tests);
    return suite;
}
