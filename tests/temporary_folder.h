// temporary_folder.h -- a folder for one test to write into, gone again afterwards.
#ifndef TEST_TEMPORARY_FOLDER_H
#define TEST_TEMPORARY_FOLDER_H

#include "cpu/status.h"

#include <check.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct temporary_folder {
    char path[256];
} temporary_folder;

static inline temporary_folder make_temporary_folder(void) {
    temporary_folder folder;
    const char *parent = getenv("TMPDIR");
    snprintf(folder.path, sizeof folder.path, "%s/attention-test-XXXXXX", parent ? parent : "/tmp");
    ck_assert_msg(mkdtemp(folder.path) != NULL, "cannot make %s", folder.path);
    return folder;
}

// "folder/name". Four results stay valid at a time.
static inline const char *in_folder(const temporary_folder *folder, const char *name) {
    static char path[4][PATH_MAX];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], PATH_MAX, "%s/%s", folder->path, name);
    return path[next];
}

static inline void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

static inline void write_text(const char *path, const char *text) {
    write_bytes(path, text, strlen(text));
}

// The file's bytes, malloc'ed.
static inline char *read_bytes(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    ck_assert_uint_eq(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

// How many entries the folder has: to see that nothing was left behind.
static inline int count_entries(const char *path) {
    DIR *listing = opendir(path);
    ck_assert_ptr_nonnull(listing);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(listing);
    return count;
}

static inline void remove_tree(const char *path) {
    struct stat facts;
    if (lstat(path, &facts) != 0) return;
    if (!S_ISDIR(facts.st_mode)) {
        unlink(path);
        return;
    }
    DIR *listing = opendir(path);
    if (listing != NULL) {
        for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
            char below[PATH_MAX];
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
            if (snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < PATH_MAX)
                remove_tree(below);
        }
        closedir(listing);
    }
    rmdir(path);
}

static inline void remove_temporary_folder(const temporary_folder *folder) {
    remove_tree(folder->path);
}

// The status has this code, and its sentence is one line that contains each of the words ("a|b|c").
static inline void assert_refused(attn_status status, attn_code code, const char *words) {
    ck_assert_msg(status.code == code, "expected code %d with '%s', got %d: %s", code, words,
                  status.code, status.text);
    ck_assert_ptr_null(strchr(status.text, '\n'));
    char copy[512];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *rest, *word = strtok_r(copy, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
        ck_assert_msg(strstr(status.text, word) != NULL, "no '%s' in: %s", word, status.text);
}

static inline void assert_ok(attn_status status) {
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
}

#endif
