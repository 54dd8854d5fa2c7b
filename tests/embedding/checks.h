// What the C tests of colibri.h share: checks that name what they found, and the demo model.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/colibri.h"

// Ends the program: a case is a process.
#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

#define CHECK_CODE(call, wanted)                                                  \
  do {                                                                            \
    const int code_ = (call);                                                     \
    if (code_ != (wanted)) {                                                      \
      printf("%s:%d: %s is %d (%s), want %s\n", __FILE__, __LINE__, #call, code_, \
             colibri_code_name(code_), #wanted);                                  \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

static inline colibri_engine* start_demo(int64_t ranks) {
  colibri_options options = {.struct_size = sizeof options};
  options.model = COLIBRI_DEMO;
  options.ranks = ranks;
  options.threads = 1;
  options.max_context = 512;
  colibri_engine* engine = NULL;
  colibri_error error = {.struct_size = sizeof error};
  if (colibri_init(&options, &engine, &error) != COLIBRI_OK) {
    printf("colibri_init: %s\n", error.text);
    exit(1);
  }
  return engine;
}

// Greedy.
static inline colibri_request ask(const char* prompt, int64_t max_tokens) {
  colibri_request request = {.struct_size = sizeof request};
  request.prompt = prompt;
  request.max_tokens = max_tokens;
  return request;
}

static inline int same_ids(const colibri_result* a, const colibri_result* b) {
  return a->num_ids == b->num_ids && memcmp(a->ids, b->ids, a->num_ids * sizeof *a->ids) == 0;
}

struct named_case {
  const char* name;
  void (*run)(void);
};

// What main() returns: runs the case that the command line names.
static inline int run_case(int argc, char** argv, const struct named_case* cases, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (argc == 2 && strcmp(argv[1], cases[i].name) == 0) {
      cases[i].run();
      return 0;
    }
  }
  printf("no case of this name; want one of\n");
  for (size_t i = 0; i < count; ++i) printf("  %s\n", cases[i].name);
  return 2;
}
