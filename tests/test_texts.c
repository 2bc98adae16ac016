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

Suite *texts_suite(void) {
    Suite *suite = suite_create("texts");
    TCase *tests = tcase_create("links");
    tcase_add_test(tests, every_link_leads_somewhere);
    tcase_add_test(tests, links_that_are_right_pass);
    tcase_add_test(tests, broken_links_are_told);
    suite_add_tcase(suite, tests);
    return suite;
}
